// Mails, mailboxes and saved web pages that were made here, for what the mail of Python in
// extract_test.cc does not have. Expected texts are what a mail program shows.
#include <gtest/gtest.h>

#include <string>

#include "tools/ingest/extract/extract.h"
#include "tools/ingest/package_format.h"

namespace lectern::tools {
namespace {

Extracted Mail(const std::string& bytes) {
  auto extracted = Extract("eml", bytes);
  if (extracted.ok()) return *extracted;
  Extracted refused;
  refused.text = "refused: " + extracted.error().message;
  return refused;
}

// A part of a multipart with the boundary "b".
std::string MailPart(const std::string& headers, const std::string& body) {
  return "--b\n" + headers + "\n\n" + body + "\n";
}
std::string MailOf(const std::string& type, const std::string& body) {
  return "From: Ada <a@example.org>\nSubject: Rent\nMIME-Version: 1.0\nContent-Type: " + type +
         "\n\n" + body;
}
constexpr char kHeaders[] = "From: Ada <a@example.org>\nSubject: Rent\n\n";

TEST(MailTest, AMailboxIsReadMessageByMessage) {
  const std::string box =
      "From a@example.org Fri May 17 09:30:00 2024\nFrom: a@example.org\nSubject: One\n\nFirst "
      "text.\n\nFrom b@example.org Sat May 18 10:00:00 2024\nFrom: b@example.org\nSubject: Two\n\n"
      "Second text.\n";
  EXPECT_EQ(MarkedTextFormat(box), "eml");
  const Extracted read = Mail(box);
  EXPECT_EQ(read.text,
            "# One\n\nFrom: a@example.org\nSubject: One\n\nFirst text.\n\n"
            "# Two\n\nFrom: b@example.org\nSubject: Two\n\nSecond text.\n");
  ASSERT_EQ(read.pages.size(), 2u);
  EXPECT_TRUE(read.text.substr(read.pages[1].text_begin).starts_with("# Two"));
  EXPECT_EQ(read.num_pages, 2u);
  // Letters begin like that too.
  EXPECT_EQ(MarkedTextFormat("From the desk of Ada\n\nTo: Bo\n"), "");
  EXPECT_EQ(MarkedTextFormat("From 1999 on, at 10:30 each day\nthe mill ran.\n"), "");
}

TEST(MailTest, OfAlternativesThePlainTextIsTaken) {
  const std::string plain = MailPart("Content-Type: text/plain", "Plain.");
  const std::string html = MailPart("Content-Type: text/html", "<p>Rich.</p>");
  EXPECT_EQ(Mail(MailOf("multipart/alternative; boundary=b", html + plain + "--b--\n")).text,
            std::string(kHeaders) + "Plain.\n");
  EXPECT_EQ(Mail(MailOf("multipart/alternative; boundary=b",
                        MailPart("Content-Type: text/plain", " ") + html + "--b--\n"))
                .text,
            std::string(kHeaders) + "Rich.\n");
  EXPECT_EQ(Mail(MailOf("multipart/alternative; boundary=b",
                        MailPart("Content-Type: text/x-web-markdown", "Only this.") + "--b--\n"))
                .text,
            std::string(kHeaders) + "Only this.\n");
}

// As shops and newsletters send them.
TEST(MailTest, PlainTextThatLacksWhatTheHtmlSaysIsNotTaken) {
  std::string words;
  for (int i = 0; i < 30; ++i) words += " word" + std::to_string(i);
  const std::string html = "<p>Order 17 of" + words + "</p>";
  const auto mail = [](const std::string& plain, const std::string& other) {
    return Mail(MailOf("multipart/alternative; boundary=b",
                       MailPart("Content-Type: text/plain", plain) + other + "--b--\n"))
        .text;
  };
  const std::string stub = "Your program shows no HTML.";
  EXPECT_EQ(mail(stub, MailPart("Content-Type: text/html", html)),
            kHeaders + ("Order 17 of" + words + "\n"));
  EXPECT_EQ(mail(stub, MailPart("Content-Type: multipart/related; boundary=c",
                                "--c\nContent-Type: text/html\n\n" + html + "\n--c--")),
            kHeaders + ("Order 17 of" + words + "\n"));
  // It says the same, or nearly so.
  EXPECT_EQ(mail("17:" + words, MailPart("Content-Type: text/html", html)),
            kHeaders + ("17:" + words + "\n"));
  EXPECT_EQ(mail("Come.", MailPart("Content-Type: text/html", "<p>Come.</p><p>Sent by my phone")),
            kHeaders + std::string("Come.\n"));
}

TEST(MailTest, InvitationsSayWhenAndWhere) {
  const std::string event =
      "BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:Tenants\nDTSTART:20240301T081500Z\n"
      "LOCATION:Osk\nEND:VEVENT\nEND:VCALENDAR\n";
  const std::string invitation = MailPart("Content-Type: multipart/alternative; boundary=c",
                                          "--c\nContent-Type: text/plain\n\nPlease come.\n"
                                          "--c\nContent-Type: text/calendar; method=REQUEST\n\n" +
                                              event + "--c--");
  const std::string file = MailPart(
      "Content-Type: application/ics\nContent-Disposition: attachment; filename=i.ics", event);
  const Extracted read = Mail(MailOf("multipart/mixed; boundary=b", invitation + file + "--b--\n"));
  EXPECT_EQ(read.text, std::string(kHeaders) +
                           "Please come.\n\n## Tenants\n\nStart: Friday, 2024-03-01, 08:15 UTC\n"
                           "Location: Osk\n");
  EXPECT_EQ(read.note, "");
}

TEST(MailTest, LinesOfFlowedTextsAreJoined) {
  EXPECT_EQ(
      Mail(MailOf("text/plain; format=flowed",
                  "The rent \r\nis due.\r\n From May on.\r\n> Is it \r\n> 500?\r\n>> Yes \r\n"
                  "-- \r\nAda\r\n"))
          .text,
      std::string(kHeaders) + "The rent is due.\nFrom May on.\n> Is it 500?\n>> Yes \n-- \nAda\n");
  EXPECT_EQ(
      Mail(MailOf("text/plain; format=flowed; delsp=yes", "http://a.org/ \nb and  \nc\n")).text,
      std::string(kHeaders) + "http://a.org/b and c\n");
}

TEST(MailTest, AttachedTextsAreReadAndOtherFilesNamed) {
  const Extracted read = Mail(MailOf(
      "multipart/mixed; boundary=b",
      MailPart("Content-Type: text/plain\nContent-Transfer-Encoding: quoted-printable",
               "500=E2=82=AC are =\ndue.") +
          MailPart("Content-Type: text/plain\nContent-Disposition: attachment; filename=list.txt",
                   "ladder\nsaw") +
          MailPart("Content-Type: application/pdf; name=bill.pdf", "x") +
          MailPart("Content-Type: text/plain\nContent-Transfer-Encoding: base64\n"
                   "Content-Disposition: attachment; filename=all.zip",
                   "UEsDBBQAAAAIAA==") +
          MailPart("Content-Type: application/pgp-signature; name=s.asc", "x") + "--b--\n"));
  EXPECT_EQ(read.text,
            std::string(kHeaders) + "500€ are due.\n\nAttachment: list.txt\n\nladder\nsaw\n");
  EXPECT_EQ(read.note, "attachments are not read: bill.pdf, all.zip");
}

TEST(MailTest, CharacterSetsThatNobodyDeclares) {
  // "Аренда за май составляет пятьсот рублей" in KOI8-R, as Python's codec writes it.
  const std::string russian =
      "\xe1\xd2\xc5\xce\xc4\xc1 \xda\xc1 \xcd\xc1\xca "
      "\xd3\xcf\xd3\xd4\xc1\xd7\xcc\xd1\xc5\xd4 "
      "\xd0\xd1\xd4\xd8\xd3\xcf\xd4 \xd2\xd5\xc2\xcc\xc5\xca";
  EXPECT_EQ(Mail(MailOf("text/plain", russian)).text,
            std::string(kHeaders) + "Аренда за май составляет пятьсот рублей\n");
  EXPECT_EQ(Mail(MailOf("text/html",
                        "<html><meta charset=koi8-r><body><p>" + russian + "</p></body></html>"))
                .text,
            std::string(kHeaders) + "Аренда за май составляет пятьсот рублей\n");
  // Browsers read latin-1 as windows-1252.
  EXPECT_EQ(Mail(MailOf("text/plain; charset=iso-8859-1", "It\x92s 5\x80")).text,
            std::string(kHeaders) + "It’s 5€\n");
}

TEST(MailTest, WordsOfHeadersAreDecodedOneByOne) {
  // "ÄÖ", and a name, each in words of base64 with padding; then words that are none.
  EXPECT_EQ(Mail("From: =?UTF-8?B?QWRhIA==?=\n =?UTF-8?B?TMO2dw==?= <a@example.org>\n"
                 "Subject: =?UTF-8?B?w4Q=?= =?UTF-8?b?w5Y=?= =?utf-8?Q?_x?= =?a?B? =?\n\nRent\n")
                .text,
            "From: Ada Löw <a@example.org>\nSubject: ÄÖ x =?a?B? =?\n\nRent\n");
}

TEST(MailTest, SignsOfWindowsInHeadersOfLatin1) {
  EXPECT_EQ(Mail("From: =?iso-8859-1?Q?Ada_=93L=F6w=94?= <a@example.org>\n"
                 "Subject: =?iso-8859-1?Q?Rent_=96_=80_5?=\n\nRent\n")
                .text,
            "From: Ada “Löw” <a@example.org>\nSubject: Rent – € 5\n\nRent\n");
}

TEST(MailTest, HeadersThatAreWrittenWrongStayAsTheyStand) {
  EXPECT_EQ(Mail("From: Big Bug bug@example.org\nTo: Ada <a@example.org>\nTo: bo@example.org\n"
                 "Date: soon\nSubject: Rent\nSubject: Roof\n\nText\n")
                .text,
            "From: Big Bug bug@example.org\nTo: Ada <a@example.org>, bo@example.org\nDate: soon\n"
            "Subject: Rent\n\nText\n");
  // Cyrillic as it stands, in the character set of the text.
  EXPECT_EQ(Mail("From: \xe1\xd2\xc5\xce\xc4\xc1 <a@example.org>\nSubject: \xcd\xc1\xca\n"
                 "Content-Type: text/plain; charset=koi8-r\n\n\xcd\xc1\xca\n")
                .text,
            "From: Аренда <a@example.org>\nSubject: май\n\nмай\n");
}

TEST(MailTest, AMessageInUtf16) {
  for (const bool is_marked : {true, false}) {
    std::string wide = is_marked ? "\xFF\xFE" : "";
    for (const char16_t unit : u"From: a@example.org\nSubject: Rent\n\nLöw, and more of it.\n") {
      if (unit != 0) wide += {static_cast<char>(unit & 0xFF), static_cast<char>(unit >> 8)};
    }
    EXPECT_EQ(Mail(wide).text, "From: a@example.org\nSubject: Rent\n\nLöw, and more of it.\n");
  }
}

TEST(MailTest, AttachedMessagesInBase64AndReportsAreRead) {
  // "From: b@example.org\nSubject: In\n\nInside.\n"
  const Extracted read = Mail(MailOf(
      "multipart/report; boundary=b",
      MailPart("Content-Type: text/plain", "Not sent.") +
          MailPart("Content-Type: message/delivery-status", "Status: 5.1.1") +
          MailPart("Content-Type: message/rfc822; name=m.eml\nContent-Transfer-Encoding: base64\n"
                   "Content-Disposition: attachment; filename=m.eml",
                   "RnJvbTogYkBleGFtcGxlLm9yZwpTdWJqZWN0OiBJbgoKSW5zaWRlLgo=") +
          "--b--\n"));
  EXPECT_EQ(read.text, std::string(kHeaders) +
                           "Not sent.\n\nStatus: 5.1.1\n\nFrom: b@example.org\nSubject: In\n\n"
                           "Inside.\n");
  EXPECT_EQ(read.note, "");
}

// RFC 2046, 5.2.2.
TEST(MailTest, MessagesInPartsAreNamedOrJoined) {
  const auto part = [](int number, const std::string& body) {
    return "From: a@example.org\nSubject: Rent (" + std::to_string(number) +
           "/3)\nMIME-Version: 1.0\nContent-Type: message/partial; id=\"x@example.org\"; number=" +
           std::to_string(number) + "; total=3\n\n" + body;
  };
  const std::string first = part(1,
                                 "From: b@example.org\nSubject: Rent\nMIME-Version: 1.0\n"
                                 "Content-Type: text/plain\n\nThe rent is due\n"),
                    second = part(2, "on Monday, and\n"), third = part(3, "not on Friday.\n");
  const Extracted begun = Mail(first);
  EXPECT_EQ(begun.text,
            "From: a@example.org\nSubject: Rent (1/3)\n\nFrom: b@example.org\nSubject: Rent\n\n"
            "The rent is due\n");
  EXPECT_EQ(begun.note,
            "what follows part 1 of 3 of a message that was sent in parts (message/partial) is not "
            "read; join the parts in a mail program, and save the whole message");
  EXPECT_EQ(Mail(second).text,
            "refused: is part 2 of 3 of a message that was sent in parts (message/partial), which "
            "begins in part 1; join the parts in a mail program, and save the whole message");
  // A mailbox has them all, in any order.
  const std::string from = "From a@example.org Fri May 17 09:30:00 2024\n";
  const Extracted box = Mail(from + third + "\n" + from + first + "\n" + from + second);
  EXPECT_NE(box.text.find("\nFrom: b@example.org\nSubject: Rent\n\nThe rent is due\n"),
            std::string::npos)
      << box.text;
  EXPECT_NE(box.text.find("\non Monday, and\n"), std::string::npos) << box.text;
  EXPECT_TRUE(box.text.ends_with("\nnot on Friday.\n")) << box.text;
  EXPECT_EQ(box.note, "");
}

TEST(MailTest, ASavedPageIsAPage) {
  const Extracted read = Mail(
      "From: <Saved by Blink>\nSnapshot-Content-Location: https://example.org/\nSubject: Mills\n"
      "MIME-Version: 1.0\nContent-Type: multipart/related; boundary=b; type=\"text/html\"\n\n" +
      MailPart("Content-Type: text/html",
               "<html><body><nav>Home</nav><main><h1>Mills</h1><p>Osk has one.</p></main></body>"
               "</html>") +
      MailPart("Content-Type: text/css", "p { color: red }") +
      MailPart("Content-Type: image/png", "x") + "--b--\n");
  EXPECT_EQ(read.text, "# Mills\n\nOsk has one.\n");
  EXPECT_EQ(read.note, "");
}

}  // namespace
}  // namespace lectern::tools
