// A Qt window that indexes a text file with progress and asks about it: the answer as it comes, its
// passages highlighted. window MODEL STORE FILE [QUESTION [PNG]]: asks at once; saves a picture,
// ends.
#include <lectern/lectern.h>

#include <QtWidgets>
#include <thread>

namespace api = lectern::api;

class Window : public QWidget {
 public:
  Window(api::Engine engine, const QByteArray& text) : engine_(std::move(engine)) {
    auto* const layout = new QVBoxLayout(this);
    for (QWidget* widget : {static_cast<QWidget*>(&text_), static_cast<QWidget*>(&progress_),
                            static_cast<QWidget*>(&question_), static_cast<QWidget*>(&answer_)}) {
      layout->addWidget(widget);
    }
    text_.setReadOnly(true);
    text_.setPlainText(QString::fromUtf8(text));
    question_.setPlaceholderText("Ask about this document");
    question_.setEnabled(false);
    answer_.setWordWrap(true);
    connect(&question_, &QLineEdit::returnPressed, this, [this] { Ask(); });
    resize(640, 480);
    worker_ = std::thread([this, text] { Index(text); });
  }
  ~Window() override {
    stops_ = true;
    engine_.Cancel();
    if (session_) session_->Cancel();
    worker_.join();
  }
  void AskAndSave(const QString& question, const QString& picture) {
    question_.setText(question);
    picture_ = picture;
  }

 private:
  // On the worker; what touches the window is posted to its own thread.
  template <typename Function>
  void Post(Function function) {
    QMetaObject::invokeMethod(this, function, Qt::QueuedConnection);
  }

  // On the worker: indexes the text and opens it, or shows the error. The question that was set
  // before is then asked.
  void Index(const QByteArray& text) {
    const auto report = [this](const api::Progress& progress) {
      Post([this, done = progress.done, total = progress.total,
            stage = QString::fromStdString(std::string(progress.stage))] {
        progress_.setRange(0, static_cast<int>(total));
        progress_.setValue(static_cast<int>(done));
        progress_.setFormat(stage + " %v of %m");
      });
      return !stops_;
    };
    auto indexed = engine_.Index(std::string_view(text.data(), size_t(text.size())),
                                 {.on_progress = report});
    if (!indexed.ok()) return Fail(indexed.error());
    auto session = engine_.Open(indexed->document());
    if (!session.ok()) return Fail(session.error());
    Post([this, opened = std::make_shared<api::Session>(std::move(*session))] {
      session_ = opened;
      // Into which passages point: of bytes that were no UTF-8 it has replacements.
      text_.setPlainText(QString::fromUtf8(opened->text().data(), qsizetype(opened->text().size())));
      progress_.hide();
      question_.setEnabled(true);
      if (!question_.text().isEmpty()) Ask();
    });
  }

  // On the window's thread, when the worker is idle: asks on a new worker.
  void Ask() {
    worker_.join();
    question_.setEnabled(false);
    answer_.clear();
    worker_ = std::thread([this, question = question_.text().toStdString()] {
      const auto show = [this](std::string_view piece) {
        Post([this, more = QString::fromUtf8(piece.data(), qsizetype(piece.size()))] {
          answer_.setText(answer_.text() + more);
        });
        return !stops_;
      };
      auto answer = session_->Ask(question, {.on_text = show});
      if (!answer.ok()) return Fail(answer.error());
      auto json = answer->Json(LECTERN_OFFSET_UTF16);  // what Qt counts
      if (!json.ok()) return Fail(json.error());
      Post([this, read = QByteArray::fromStdString(*json)] { Show(read); });
    });
  }

  // Marks the passages of an answer in the text and goes to the first; saves the picture, if one is
  // wanted, and ends.
  void Show(const QByteArray& json) {
    QList<QTextEdit::ExtraSelection> passages;
    for (const auto& passage : QJsonDocument::fromJson(json)["evidence"].toArray()) {
      QTextEdit::ExtraSelection selection;
      selection.cursor = text_.textCursor();
      selection.cursor.setPosition(passage.toObject()["begin"].toInt());
      selection.cursor.setPosition(passage.toObject()["end"].toInt(), QTextCursor::KeepAnchor);
      selection.format.setBackground(QColor(255, 229, 130));
      passages << selection;
    }
    text_.setExtraSelections(passages);
    if (!passages.isEmpty()) {
      QTextCursor first = passages[0].cursor;
      first.setPosition(first.selectionStart());
      text_.setTextCursor(first);
    }
    question_.setEnabled(true);
    if (!picture_.isEmpty()) QCoreApplication::exit(grab().save(picture_) ? 0 : 1);
  }

  void Fail(const api::Error& error) {
    Post([this, message = QString::fromStdString(error.message)] {
      answer_.setText(message);
      question_.setEnabled(session_ != nullptr);
      if (!picture_.isEmpty()) QCoreApplication::exit(1);
    });
  }

  api::Engine engine_;
  std::shared_ptr<api::Session> session_;
  QPlainTextEdit text_;
  QProgressBar progress_;
  QLineEdit question_;
  QLabel answer_;
  QString picture_;
  std::atomic<bool> stops_ = false;
  std::thread worker_;
};

int main(int argc, char** argv) {
  QApplication application(argc, argv);
  QFile file(argc > 3 ? argv[3] : "");
  if (argc < 4 || !file.open(QIODevice::ReadOnly | QIODevice::Text)) {  // Text: lines end with \n
    qCritical("window MODEL STORE FILE [QUESTION [PNG]]");
    return 2;
  }
  auto engine = api::Engine::Create({.store = argv[2], .model = argv[1]});
  if (!engine.ok()) return qCritical("%s", engine.error().message.c_str()), 1;
  Window window(std::move(*engine), file.readAll());
  window.AskAndSave(argc > 4 ? argv[4] : "", argc > 5 ? argv[5] : "");
  window.show();
  return QApplication::exec();
}
