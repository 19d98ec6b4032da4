// Output of pdftotext -bbox-layout and of Tesseract, made here for tests of what reads it.
#ifndef LECTERN_TESTS_TOOLS_PRINTED_PAGES_H_
#define LECTERN_TESTS_TOOLS_PRINTED_PAGES_H_

#include <string>

namespace lectern::tools::printed {

inline std::string Head() {
  return "<!DOCTYPE html PUBLIC \"-//W3C//DTD XHTML 1.0 Transitional//EN\" \"http://x\">"
         "<html xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n<title>A < B</title>\n"
         "<meta name=\"Producer\" content=\"x\"/>\n</head>\n<body>\n";
}
inline std::string Word(const std::string& text) {
  return "          <word xMin=\"72.0\" yMin=\"64.1\" xMax=\"97.0\" yMax=\"74.2\">" + text +
         "</word>\n";
}
inline std::string Line(const std::string& words) {
  return "<line xMin=\"72.0\">\n" + words + "</line>\n";
}
inline std::string Block(const std::string& lines) {
  return "<block xMin=\"72.0\">\n" + lines + "</block>\n";
}
inline std::string Page(const std::string& blocks) {
  return "  <page width=\"612.0\" height=\"792.0\">\n<flow>\n" + blocks + "</flow>\n</page>\n";
}
inline std::string Output(const std::string& pages) {
  return Head() + "<doc>\n" + pages + "</doc>\n</body>\n</html>\n";
}
// Three pages, the second without text.
inline std::string ThreePages() {
  return Output(Page(Block(Line(Word("A") + Word("B")) + Line(Word("C&amp;&#x41;&#66;&lt;"))) +
                     Block(Line(Word("Ä")))) +
                "  <page width=\"612.0\">\n  </page>\n" + Page(Block(Line(Word("last")))));
}

// Tesseract's table for a page of two paragraphs, in the form of its documentation.
inline std::string RecognisedTable() {
  return "level\tpage_num\tblock_num\tpar_num\tline_num\tword_"
         "num\tleft\ttop\twidth\theight\tconf\ttext\n"
         "1\t1\t0\t0\t0\t0\t0\t0\t2711\t3508\t-1\t\n"
         "2\t1\t1\t0\t0\t0\t300\t356\t500\t400\t-1\t\n"
         "3\t1\t1\t1\t0\t0\t300\t356\t500\t90\t-1\t\n"
         "4\t1\t1\t1\t1\t0\t300\t356\t500\t40\t-1\t\n"
         "5\t1\t1\t1\t1\t1\t300\t356\t500\t40\t96.82\tRecog-\n"
         "4\t1\t1\t1\t2\t0\t300\t406\t500\t30\t-1\t\n"
         "5\t1\t1\t1\t2\t1\t300\t406\t240\t30\t91\tnised\n"
         "5\t1\t1\t1\t2\t2\t560\t406\t240\t30\t91\ttext\n"
         "3\t1\t1\t2\t0\t0\t300\t656\t500\t40\t-1\t\n"
         "4\t1\t1\t2\t1\t0\t300\t656\t500\t40\t-1\t\n"
         "5\t1\t1\t2\t1\t1\t300\t656\t500\t40\t95\t \n"
         "5\t1\t1\t2\t1\t2\t300\t656\t500\t40\t95\tEnd.\n";
}

}  // namespace lectern::tools::printed

#endif  // LECTERN_TESTS_TOOLS_PRINTED_PAGES_H_
