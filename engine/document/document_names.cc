#include "engine/document/document_names.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "engine/document/parts.h"
#include "engine/model/formats/path_text.h"
#include "engine/model/formats/text.h"
#include "engine/model/tokenizer/compose.h"
#include "store/env.h"

namespace lectern {
namespace {

constexpr size_t kMaxNameBytes = 1024;

std::string Quoted(std::string_view name) { return "\"" + std::string(name) + "\""; }

// One name of a ready document.
struct Named {
  std::string name, source;
  const DocumentRow* row;
  const DocumentId& id() const { return row->id; }
};

std::vector<Named> NamesOf(const std::vector<DocumentRow>& rows) {
  std::vector<Named> all;
  for (const DocumentRow& row : rows) {
    if (row.state != DocumentState::kReady) continue;
    for (const DocumentName& name : row.names) all.push_back({name.name, name.source, &row});
  }
  return all;
}

// The last parts of an absolute path, shortest first: "x", "b/x", "a/b/x". Anything else is
// returned whole.
std::vector<std::string> EndsOf(const std::string& path) {
  if (!IsAbsolutePath(path)) return {path};
  std::vector<std::string> ends;
  for (size_t slash = path.find_last_of('/'); slash != path.npos;) {
    ends.push_back(path.substr(slash + 1));
    if (slash == 0) break;
    slash = path.find_last_of('/', slash - 1);
  }
  return ends;
}

// Decides the names of one document (see the header's rules). Called "ours" below: the document
// that is being indexed, and names from its source.
class Planner {
 public:
  Planner(const std::vector<DocumentRow>& rows, const NameWish& wish, const DocumentId& id)
      : all_(NamesOf(rows)),
        wanted_(NameForm(wish.name)),
        source_(wish.source.empty() ? wanted_ : wish.source),
        path_(NameForm(wish.path.empty() ? source_ : wish.path)),
        id_(id) {
    for (const Named& named : all_) {
      if (named.source == source_) own_.push_back(&named);
    }
  }

  NamePlan Run() {
    plan_.source = source_;
    if (source_.empty()) return Unnamed();
    const Named* const holder = HolderOf(wanted_.empty() ? EndsOf(path_).front() : wanted_);
    const bool is_ours = holder != nullptr && holder->source == source_;
    const bool is_name_alone = source_ == wanted_;  // without a path nobody may be pushed aside
    // Who has the wanted name decides: nobody known, an earlier version of ours, this very
    // document, or somebody else.
    if (holder != nullptr && holder->source.empty() && (own_.empty() || !wanted_.empty())) {
      TakeOverUnknown(*holder);
    } else if (is_ours && !wanted_.empty()) {
      Continue(*holder);
    } else if (holder != nullptr && holder->id() == id_ && !wanted_.empty()) {
      plan_.name = holder->name;
    } else if (wanted_.empty() || (is_name_alone && holder != nullptr)) {
      NameAfterPath();
    } else {
      TakeName(holder);
    }
    return std::move(plan_);
  }

 private:
  NamePlan Unnamed() {
    const auto named = std::ranges::find_if(all_, [&](const Named& n) { return n.id() == id_; });
    if (named != all_.end()) plan_.name = named->name;
    return std::move(plan_);
  }

  const Named* HolderOf(const std::string& name) const {
    const auto found = std::ranges::find_if(
        all_, [&](const Named& named) { return NameForm(named.name) == name; });
    return found == all_.end() ? nullptr : &*found;
  }

  void Say(const std::string& sentence) {
    plan_.note += (plan_.note.empty() ? "" : "; ") + sentence;
  }

  void Give(const std::string& name) {
    plan_.change.names.push_back({name, source_});
    plan_.name = name;
  }

  // Ours is the next version of the document that has this name: all names of ours that it has
  // move.
  void Continue(const Named& before) {
    plan_.name = before.name;
    if (before.id() == id_) return;
    for (const Named* own : own_) {
      if (own->id() == before.id()) plan_.change.names.push_back({own->name, source_});
    }
    plan_.before = *before.row;
    plan_.change.replaced.push_back(before.id());
  }

  // The name's source is unknown (it is older than sources, or the catalog was recovered): the name
  // moves, as it did then. A document of another text stays, because it may have come from
  // elsewhere.
  void TakeOverUnknown(const Named& holder) {
    Give(holder.name);
    if (holder.id() == id_) return;
    Say(Quoted(holder.name) +
        " was another text, and it is not known where that came from: it stays, "
        "as document " +
        ToHex(holder.id()));
  }

  // The name of ours to continue: one of the same bytes, else one made from the path, else the
  // newest document's.
  const Named* BestOwn() const {
    const auto rank = [&](const Named* own) {
      return std::tuple(own->id() == id_, IsEndOfPath(own->name, path_), own->row->generation);
    };
    const auto best = std::ranges::max_element(own_, {}, rank);
    return best == own_.end() ? nullptr : *best;
  }

  // Continues the best document of ours, if there is one, under its name that the path ends in;
  // without such a name, takes the shortest end of the path that is free.
  void NameAfterPath() {
    const Named* const best = BestOwn();
    if (best != nullptr) Continue(*best);
    const auto is_named_so = [&](const Named* own) {
      return own->id() == best->id() && (IsEndOfPath(own->name, path_) || source_ == wanted_);
    };
    const auto named = std::ranges::find_if(own_, is_named_so);
    if (named != own_.end()) {
      plan_.name = (*named)->name;
    } else {
      Give(FreeName(path_, source_, nullptr));
      SayWhyNot(EndsOf(path_).front());
    }
  }

  // Whether a document may get the name: nobody has it, it is not `taken` (nullptr: none), which is
  // being given away, and CheckName would let a user ask for it. An empty name is not free.
  bool IsFree(const std::string& name, const DocumentName* taken) const {
    if (name.empty() || !CheckName(name).ok()) return false;
    return HolderOf(name) == nullptr && (taken == nullptr || taken->name != name);
  }
  // Whether the name is an end of another source's path too, and so would not tell the two apart.
  bool FitsOthers(const std::string& name, const std::string& source) const {
    return std::ranges::any_of(all_, [&](const Named& named) {
      return named.source != source && IsEndOfPath(name, named.source);
    });
  }

  // A free name for a document from `source`, made from `path`: distinct from all names, and from
  // `taken`, which is just being given away.
  std::string FreeName(const std::string& path, const std::string& source,
                       const DocumentName* taken) const {
    const std::vector<std::string> ends = EndsOf(path);
    const auto found = std::ranges::find_if(ends, [&](const std::string& end) {
      const bool is_base = &end == &ends.front();
      return IsFree(end, taken) && (is_base || !FitsOthers(end, source));
    });
    std::string name = found == ends.end() ? "" : *found;
    for (int number = 2; name.empty(); ++number) {
      // A base name that is too long is cut, leaving room for the number.
      const std::string base = NameForm(ends.front().substr(0, kMaxNameBytes - 32));
      const std::string numbered = base + " (" + std::to_string(number) + ")";
      if (IsFree(numbered, taken)) name = numbered;
    }
    return name;
  }

  // Explains to the user why the base name was not used.
  void SayWhyNot(const std::string& base) {
    const Named* const holder = HolderOf(base);
    if (holder == nullptr || plan_.name == base) return;
    Say("named " + Quoted(plan_.name) + ", as " + Quoted(holder->name) + " is " +
        (holder->source == holder->name ? "another document" : NameForm(holder->source)));
  }

  // Takes a name that was asked for. Its holder is named after its source, unless it has another
  // name.
  void TakeName(const Named* holder) {
    Give(wanted_);
    if (holder == nullptr) return;
    plan_.change.names.back().name = holder->name;  // the catalog's own spelling is the key
    plan_.name = holder->name;
    std::string now;
    for (const DocumentName& name : holder->row->names) {
      if (name.name != holder->name) now = name.name;
    }
    if (now.empty()) {
      const DocumentName taken = {wanted_, holder->source};
      now = FreeName(NameForm(holder->source), holder->source, &taken);
      plan_.change.others.push_back({{now, holder->source}, holder->id()});
    }
    Say(Quoted(holder->name) + " was " + NameForm(holder->source) + ", which is named " +
        Quoted(now) + " now");
  }

  const std::vector<Named> all_;
  const std::string wanted_, source_, path_;
  const DocumentId& id_;
  std::vector<const Named*> own_;  // of all_: from the same source
  NamePlan plan_;
};

}  // namespace

std::string NameForm(std::string_view name) {
  const std::string clean = CleanUtf8(name).text;
  return std::string(ComposedText(clean).text());
}

Status CheckName(const std::string& name) {
  const auto wrong = [](const char* message) {
    return Status(Code::kInvalidArgument, message).WithParam("name");
  };
  if (CleanUtf8(name).text != name || name.size() > kMaxNameBytes) {
    return wrong("a name is valid UTF-8 of at most 1024 bytes");
  }
  if (ParseDocumentId(name)) {
    return wrong("a name of 32 hexadecimal digits would look like a document id");
  }
  if (WholeOf(name)) return wrong("a name of this form is kept for parts of documents");
  return {};
}

bool IsEndOfPath(std::string_view name, std::string_view path) {
  const std::string end = NameForm(name), whole = NameForm(path);
  if (end.empty() || !whole.ends_with(end)) return false;
  return end.size() == whole.size() || end.front() == '/' ||
         whole[whole.size() - end.size() - 1] == '/';
}

NamePlan PlanNames(const std::vector<DocumentRow>& rows, const NameWish& wish,
                   const DocumentId& id) {
  return Planner(rows, wish, id).Run();
}

std::optional<NamePlan> PlanKnownName(const DocumentRow& row, const NameWish& wish) {
  if (!wish.name.empty() || wish.source.empty()) return std::nullopt;
  const std::string& path = wish.path.empty() ? wish.source : wish.path;
  const auto known = std::ranges::find_if(row.names, [&](const DocumentName& name) {
    return name.source == wish.source && IsEndOfPath(name.name, path);
  });
  if (known == row.names.end()) return std::nullopt;
  NamePlan plan;
  plan.name = known->name;
  plan.source = wish.source;
  return plan;
}

std::string NameAndSource(const DocumentRow& row) {
  if (row.names.empty()) return row.name.empty() ? ToHex(row.id) : Quoted(row.name);
  const auto named = std::ranges::find(row.names, row.name, &DocumentName::name);
  const DocumentName& name = named == row.names.end() ? row.names.front() : *named;
  const bool has_path = !name.source.empty() && name.source != name.name;
  return Quoted(name.name) + (has_path ? " (" + NameForm(name.source) + ")" : "");
}

// Finds a document by its name first, then by the end of the path of its source. A text without a
// folder finds nothing by a path; where it ends several paths the message lists them.
Result<std::optional<DocumentRow>> FindByName(const std::vector<DocumentRow>& rows,
                                              std::string_view text) {
  const std::vector<Named> all = NamesOf(rows);
  const std::string wanted = NameForm(text);
  const auto as_found = [](const Named& named) {
    DocumentRow row = *named.row;
    row.name = named.name;
    return row;
  };
  const std::string path = ForwardSlashes(wanted);
  const auto has_name = [&](const Named& named) {
    const std::string form = NameForm(named.name);
    return form == wanted || form == path;
  };
  const auto known = std::ranges::find_if(all, has_name);
  if (known != all.end()) return std::optional(as_found(*known));
  std::vector<DocumentRow> fitting;
  const bool has_folder = path.find('/') != path.npos;
  for (const Named& named : all) {
    const bool is_there = std::ranges::any_of(
        fitting, [&](const DocumentRow& row) { return row.id == named.id(); });
    if (!is_there && IsEndOfPath(path, named.source)) fitting.push_back(as_found(named));
  }
  if (fitting.empty() || (fitting.size() == 1 && !has_folder)) return std::optional<DocumentRow>();
  if (fitting.size() == 1) return std::optional(std::move(fitting.front()));
  std::string list;
  for (const DocumentRow& row : fitting) list += (list.empty() ? "" : ", ") + NameAndSource(row);
  return Status(Code::kAmbiguous, "which " + Quoted(wanted) + "? There are " + list)
      .WithParam("document");
}

}  // namespace lectern
