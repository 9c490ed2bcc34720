// The page that runs the suite in a browser. The page itself explains what it does. `?start` in its address
// starts at once, but only for modules of the page's own origin: a link must not run code from elsewhere.
import { type Law, lawId } from "../law.js";
import { buildReport, formatCount, formatTime } from "../report/index.js";
import type { Subject } from "../subjects.js";
import { type Progress, runSuite } from "../suite.js";
import { byId } from "./elements.js";
import { Form } from "./form.js";
import { ReportView } from "./report-view.js";
import { optionsFrom, type Settings, settingsFrom } from "./settings.js";
import { addressOf, subjectsFor } from "./sources.js";
import { Topics } from "./topics.js";

/** For scripts that drive the page: in `data-state` of the root element. */
type State = "idle" | "running" | "done" | "failed";

const parameters = new URL(location.href).searchParams;
const form = new Form(settingsFrom(parameters), () => void run());
const view = new ReportView();

byId("loading").hidden = true;
byId("environment").textContent = [
  "gpu" in navigator ? "WebGPU is there" : "There is no WebGPU here",
  crossOriginIsolated
    ? ", and shared memory for threads."
    : "; no shared memory for threads, since the server does not isolate the page.",
].join("");
setState("idle");
if (parameters.has("start") && isOwn(form.settings)) await run();

function setState(state: State): void {
  document.documentElement.dataset.state = state;
  form.isRunning = state === "running";
  byId("run").hidden = state !== "running";
}

function isOwn({ source, backend }: Settings): boolean {
  if (source !== "address") return true;
  return URL.canParse(backend, document.baseURI) && addressOf(backend).origin === location.origin;
}

async function run(): Promise<void> {
  view.clear();
  byId("topics").replaceChildren();
  byId("counts").textContent = "";
  byId<HTMLProgressElement>("progress").value = 0;
  byId("problem").hidden = true;
  byId("now").textContent = "Loading the backend";
  const stopping = new AbortController();
  const stop = byId<HTMLButtonElement>("stop");
  stop.disabled = false;
  stop.onclick = () => {
    stop.disabled = true;
    stopping.abort();
  };
  setState("running");
  try {
    const { settings } = form;
    const options = { ...optionsFrom(settings), signal: stopping.signal };
    for (const subject of await subjectsFor(settings, form.file)) {
      if (stopping.signal.aborted) break;
      await runOne({ ...subject, options: { ...subject.options, ...options } });
    }
    setState("done");
  } catch (error) {
    const problem = byId("problem");
    problem.textContent = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    problem.hidden = false;
    setState("failed");
  }
}

async function runOne(subject: Subject): Promise<void> {
  const topics = new Topics(byId("topics"));
  const started = performance.now();
  const outcome = await runSuite(subject, {
    onStart(law, progress) {
      byId("now").textContent =
        `${subject.name}, ${formatTime(performance.now() - started)}: ${place(law, progress)}`;
    },
    onResult(result, { done, total }) {
      topics.add(result);
      byId("counts").textContent = topics.summary;
      Object.assign(byId("progress"), { value: done, max: total });
    },
  });
  view.add(buildReport(outcome));
  // The report has the same, and more.
  topics.clear();
}

function place(law: Law, { done, total, seed, round }: Progress): string {
  const where = round === 0 ? "" : ` in round ${round + 1}, seed ${seed}`;
  return `law ${formatCount(done + 1)} of ${formatCount(total)}${where}: ${lawId(law)}`;
}
