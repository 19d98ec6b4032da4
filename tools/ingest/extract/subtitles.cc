// Subtitles and transcripts: SubRip (.srt) and WebVTT (.vtt, w3.org/TR/webvtt1).
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "engine/model/formats/text.h"
#include "tools/ingest/extract/readers.h"

namespace lectern::tools {
namespace {

bool IsTimeDigit(char c) { return c >= '0' && c <= '9'; }

// The seconds of "00:01:02,350" or "01:02.350" at the text's start; nothing for other text.
std::optional<uint32_t> SecondsOf(std::string_view text) {
  uint32_t seconds = 0, group = 0;
  size_t num_groups = 0, num_digits = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : '\0';
    if (IsTimeDigit(c)) {
      if (++num_digits > 4) return std::nullopt;
      group = group * 10 + static_cast<uint32_t>(c - '0');
      continue;
    }
    if (num_digits == 0) return std::nullopt;
    seconds = seconds * 60 + group;
    ++num_groups;
    group = 0;
    num_digits = 0;
    if (c != ':') break;
  }
  return num_groups == 2 || num_groups == 3 ? std::optional(seconds) : std::nullopt;
}

// When a cue begins, of the line with its times; nothing: it is another line.
std::optional<uint32_t> CueTime(std::string_view line) {
  constexpr std::string_view kArrow = "-->";
  const size_t arrow = line.find(kArrow);
  if (arrow == std::string_view::npos) return std::nullopt;
  std::string_view end = line.substr(arrow + kArrow.size());
  end.remove_prefix(std::min(end.find_first_not_of(" \t"), end.size()));
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  return SecondsOf(end) ? SecondsOf(line) : std::nullopt;
}

// The text of a cue's line without tags and with its entities; sets `speaker` where a tag names
// one ("<v Ada Brok>").
std::string CueText(std::string_view line, std::string& speaker) {
  constexpr std::pair<std::string_view, std::string_view> kEntities[] = {
      {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}, {"&nbsp;", " "}, {"&lrm;", ""}, {"&rlm;", ""}};
  std::string text;
  while (!line.empty()) {
    const size_t end = line[0] == '<'            ? line.find('>')
                       : line.starts_with("{\\") ? line.find('}')
                                                 : std::string_view::npos;
    // "<" before a space or a digit that is no time is a sign of its own.
    const bool is_tag = end != std::string_view::npos && end > 1 &&
                        (line[0] == '{' || line[1] == '/' || SecondsOf(line.substr(1)) ||
                         (line[1] >= 'a' && line[1] <= 'z') || (line[1] >= 'A' && line[1] <= 'Z'));
    if (is_tag) {
      const std::string_view tag = line.substr(1, end - 1);
      const size_t space = tag.find(' ');
      if ((tag.starts_with("v ") || tag.starts_with("v.")) && space != std::string_view::npos)
        speaker = CollapseSpace(tag.substr(space), false);
      line.remove_prefix(end + 1);
      continue;
    }
    const auto* const entity =
        std::find_if(std::begin(kEntities), std::end(kEntities),
                     [&](const auto& known) { return line.starts_with(known.first); });
    if (entity != std::end(kEntities)) {
      text += entity->second;
      line.remove_prefix(entity->first.size());
    } else {
      text += line[0];
      line.remove_prefix(1);
    }
  }
  return CollapseSpace(text, false);
}

bool CaptionEndsSentence(std::string_view text) {
  for (const std::string_view close : {"\"", "”", "’", "»", ")", "♪"}) {
    if (text.ends_with(close)) text.remove_suffix(close.size());
  }
  constexpr std::string_view kEnds[] = {".", "?", "!", "…", "。", "？", "！", "؟", "।"};
  return std::any_of(std::begin(kEnds), std::end(kEnds),
                     [&](std::string_view end) { return text.ends_with(end); });
}

// Joins cues to paragraphs, each of which begins with its time, "[0:01:02] ".
class Transcript {
 public:
  void Line(uint32_t seconds, const std::string& speaker, const std::string& text) {
    // Captions that roll repeat the line before.
    if (text.empty() || text == last_) return;
    const bool is_dialogue = text.starts_with("- ") || text.starts_with("– ");
    const bool is_full = paragraph_.size() >= kMostBytes ||
                         (paragraph_.size() >= kEnoughBytes && CaptionEndsSentence(paragraph_));
    if (is_full || speaker != speaker_) End();
    if (paragraph_.empty()) {
      char time[32];
      std::snprintf(time, sizeof time, "[%u:%02u:%02u] ", seconds / 3600, seconds / 60 % 60,
                    seconds % 60);
      paragraph_ = time + (speaker.empty() ? "" : speaker + ": ") + text;
    } else {
      paragraph_ += (is_dialogue ? "\n" : " ") + text;
    }
    speaker_ = speaker;
    last_ = text;
  }
  void End() {
    writer_.Paragraph(paragraph_);
    paragraph_.clear();
  }
  Extracted Finish() {
    End();
    return writer_.Finish(0, "");
  }

 private:
  // Choices, for readers alone: passages are sentences. A paragraph ends with the first sentence
  // behind some lines, and without any where captions have no full stops.
  static constexpr size_t kEnoughBytes = 300, kMostBytes = 1000;

  TextBuilder writer_;
  std::string paragraph_, speaker_, last_;
};

}  // namespace

api::Result<Extracted> ReadSubtitles(std::string_view bytes) {
  const std::string clean = CleanUtf8(bytes).text;
  Transcript transcript;
  uint32_t seconds = 0;  // of the cue whose lines follow
  bool is_in_cue = false, has_cues = false;
  std::string speaker;
  for (size_t begin = 0; begin < clean.size();) {
    const size_t end = std::min(clean.find_first_of("\r\n", begin), clean.size());
    const std::string_view line = std::string_view(clean).substr(begin, end - begin);
    begin = end + (clean.compare(end, 2, "\r\n") == 0 ? 2 : 1);
    if (const auto next = CueTime(line)) {
      seconds = *next;
      is_in_cue = has_cues = true;
      speaker.clear();
    } else if (line.find_first_not_of(" \t") == std::string_view::npos) {
      is_in_cue = false;  // numbers of cues, notes and styles stand between cues
    } else if (is_in_cue) {
      const std::string text = CueText(line, speaker);
      transcript.Line(seconds, speaker, text);
    }
  }
  if (has_cues) return transcript.Finish();
  TextBuilder writer;  // some other text, named as subtitles
  writer.Verbatim(clean);
  return writer.Finish(0, "");
}

}  // namespace lectern::tools
