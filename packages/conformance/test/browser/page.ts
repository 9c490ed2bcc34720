import { type ConformanceReport, lawId, laws, mutants } from "@backplane/conformance";
import { assert } from "chai";

const page = "/packages/conformance/dist/page/index.html";
const configured = new URL("./support/configured-backend.js", import.meta.url).pathname;
/** One cheap law, so that what is tested is the page. */
const oneLaw = "unary f32: neg";

/** Against hangs only; less than a test may take. */
const hangMilliseconds = 300_000;

/** The bundled page in a frame, driven as people drive it. */
class Driver {
  readonly #frame = document.createElement("iframe");

  static async open(parameters: Readonly<Record<string, string>>): Promise<Driver> {
    const driver = new Driver();
    driver.#frame.src = `${page}?${new URLSearchParams(parameters)}`;
    document.body.append(driver.#frame);
    await driver.until("the page is ready", () => driver.state !== undefined);
    return driver;
  }

  close(): void {
    this.#frame.remove();
  }

  get state(): string | undefined {
    return this.#frame.contentDocument?.documentElement?.dataset.state;
  }

  one<Kind extends HTMLElement>(selector: string): Kind {
    const found = this.#frame.contentDocument!.querySelector<Kind>(selector);
    assert.isNotNull(found, selector);
    return found!;
  }

  all(selector: string): readonly HTMLElement[] {
    return [...this.#frame.contentDocument!.querySelectorAll<HTMLElement>(selector)];
  }

  async until(what: string, holds: () => boolean): Promise<void> {
    const end = performance.now() + hangMilliseconds;
    while (!holds()) {
      assert.isBelow(
        performance.now(),
        end,
        `${what}; it is ${this.state}: ${this.all("#problem, #now").map((e) => e.textContent)}`,
      );
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
  }

  async run(end: "done" | "failed" = "done"): Promise<void> {
    this.one("button[type=submit]").click();
    assert.equal(this.state, "running");
    await this.until(`it is ${end}`, () => this.state === end);
  }

  /** The document of the report, once all of it is there: its heading is parsed before the rest. */
  async report(name: string): Promise<Document> {
    const frame = this.one<HTMLIFrameElement>("#frame");
    const isWhole = (shown: Document | null) =>
      shown?.readyState === "complete" && shown.querySelector("h1")?.textContent === name;
    await this.until(`there is a report on ${name}`, () => isWhole(frame.contentDocument));
    return frame.contentDocument!;
  }

  async download(kind: string): Promise<{ readonly name: string; readonly text: string }> {
    const link = this.one<HTMLAnchorElement>(`#download-${kind}`);
    return { name: link.download, text: await (await fetch(link.href)).text() };
  }
}

describe("The page that runs the suite", () => {
  let driver: Driver | undefined;
  const open = async (parameters: Readonly<Record<string, string>>) => {
    driver = await Driver.open(parameters);
    return driver;
  };
  afterEach(() => driver?.close());

  it("shows progress by topic, then a report of the reference, and offers it as files", async () => {
    const shown = await open({ backend: "reference", ops: "unary", dtype: "f32", mode: "quick", seed: "3" });
    assert.equal(shown.state, "idle");
    let most = { laws: 0, progress: 0 };
    const look = () => {
      const { value } = shown.one<HTMLProgressElement>("#progress");
      const lines = shown.all("#topics [data-topic=unary] li[data-status=kept]").length;
      if (lines > 0 && value < 1) assert.fail(`${lines} laws are listed, and the progress is ${value}`);
      most = { laws: Math.max(most.laws, lines), progress: Math.max(most.progress, value) };
    };
    // However quickly the laws are done: each change is looked at.
    const watch = new MutationObserver(look);
    watch.observe(shown.one("#topics"), { childList: true, subtree: true, attributes: true });
    watch.observe(shown.one("#progress"), { attributes: true });
    await shown.run();
    watch.disconnect();
    assert.isAbove(most.laws, 0, "laws listed while it ran");
    assert.isAbove(most.progress, 0);

    const report = await shown.report("the reference");
    const expected = laws.filter((law) => law.operation === "unary" && law.dtype === "f32");
    const verdict = report.querySelector(".verdict")!;
    assert.isTrue(verdict.classList.contains("kept"), verdict.textContent ?? "");
    assert.match(verdict.textContent!, /A part of the suite only: operations unary; element types f32\./);
    assert.equal(report.querySelectorAll(".cell.kept").length, 1);
    assert.equal(report.querySelectorAll("figure svg").length, 2);
    assert.equal(getComputedStyle(report.querySelector(".cell.kept")!).backgroundColor, "rgb(227, 243, 232)");

    const json = await shown.download("json");
    assert.equal(json.name, "conformance-the-reference.json");
    const data = JSON.parse(json.text) as ConformanceReport;
    assert.deepInclude(data.run, { mode: "quick", seeds: [3], complete: true });
    assert.deepInclude(data.totals, { laws: expected.length, broken: 0, unfinished: 0 });
    assert.match((await shown.download("md")).text, /^# Conformance of the reference\n\n\*\*✓ Keeps all /);
    assert.match((await shown.download("html")).text, /^<!doctype html>.*<h1>the reference<\/h1>/s);
  });

  it("shows how a mutant fails, with its replay, and replays it", async () => {
    const { name, killedBy } = mutants.find((mutant) =>
      mutant.killedBy.some((id) => id.startsWith("reduce f32")),
    )!;
    const id = killedBy.find((one) => one.startsWith("reduce f32"))!;
    const shown = await open({ mutant: name, law: id });
    await shown.run();
    const report = await shown.report(`the mutant “${name}”`);
    assert.match(report.querySelector(".verdict.broken")!.textContent!, /✗ Breaks 1 of the 1 law/);
    const failure = report.querySelector(".failure")!;
    assert.equal(failure.querySelector("h3")!.textContent, `✗ ${id}`);
    assert.include(failure.textContent!, "--replay '{");
    assert.equal(report.querySelector(".cell.broken a")!.getAttribute("href"), `#${failure.id}`);

    const data = JSON.parse((await shown.download("json")).text) as ConformanceReport;
    const [law] = data.laws;
    shown.close();
    const again = await open({ mutant: name, replay: JSON.stringify(law!.failure!.replay) });
    await again.run();
    const same = JSON.parse((await again.download("json")).text) as ConformanceReport;
    assert.equal(same.laws[0]!.failure!.case, law!.failure!.case);
  });

  it("takes a module by its address, which imports packages by name, with several configurations", async () => {
    const shown = await open({ backend: configured, law: oneLaw });
    await shown.run();
    await shown.report("second");
    const which = shown.one<HTMLSelectElement>("#which");
    assert.deepEqual(
      [...which.options].map((option) => option.text),
      ["first", "second"],
    );
    for (const [index, name] of ["first", "second", "first"].entries()) {
      which.selectedIndex = index % 2;
      which.dispatchEvent(new Event("change"));
      await shown.report(name);
      assert.equal((await shown.download("json")).name, `conformance-${name}.json`);
    }
    shown.close();

    const other = await open({ backend: configured, export: "createAnother", law: oneLaw });
    await other.run();
    const report = await other.report(configured);
    assert.include(report.querySelector("dl")!.textContent!, "double precision");
  });

  it("takes a module in a file", async () => {
    const shown = await open({ law: oneLaw });
    const source = shown.one<HTMLSelectElement>("select[name=source]");
    source.value = "file";
    source.dispatchEvent(new Event("input", { bubbles: true }));
    assert.isFalse(shown.one("[data-source=file]").hidden);
    const code = 'export { createReferenceBackend as default } from "@backplane/conformance";';
    const files = new DataTransfer();
    files.items.add(new File([code], "mine.js", { type: "text/javascript" }));
    shown.one<HTMLInputElement>("input[name=file]").files = files.files;
    await shown.run();
    await shown.report("mine.js");
  });

  it("stops when asked to, and says that the rest was not tried", async () => {
    const shown = await open({ backend: "reference", mode: "default" });
    shown.one("button[type=submit]").click();
    await shown.until("a law was kept", () => shown.all("#topics li[data-status=kept]").length > 0);
    const done = shown.all("#topics li").length;
    shown.one("#stop").click();
    await shown.until("it is done", () => shown.state === "done");
    const report = await shown.report("the reference");
    assert.match(report.querySelector(".verdict.unfinished")!.textContent!, /the run is incomplete/);
    const { totals, run } = JSON.parse((await shown.download("json")).text) as ConformanceReport;
    assert.isFalse(run.complete);
    // No law is begun any more; that under way may still be kept.
    assert.isAtMost(totals.laws - totals.unfinished, done + 1);
    assert.equal(totals.laws, new Set(laws.map(lawId)).size);
  });

  it("says what is wrong with a module, and can be used again", async () => {
    const problem = async (parameters: Readonly<Record<string, string>>) => {
      driver?.close();
      const shown = await open({ law: oneLaw, ...parameters });
      await shown.run("failed");
      assert.isTrue(shown.one("#run").hidden);
      assert.isFalse(shown.one("#problem").hidden);
      assert.isFalse(shown.one<HTMLButtonElement>("button[type=submit]").disabled);
      return shown.one("#problem").textContent!;
    };
    assert.match(await problem({ backend: "/nowhere.js" }), /Failed to fetch dynamically imported module/);
    assert.match(
      await problem({ backend: configured, export: "notBackends" }),
      /suitable are createAnother, default, unopenable/,
    );
    assert.match(
      await problem({ backend: configured, export: "unopenable" }),
      /BackendError: .*no such device/,
    );
    assert.match(
      await problem({ backend: configured, config: "third" }),
      /no configuration “third”; it has first, second/,
    );
    assert.match(
      await problem({ backend: "reference", ops: "gemm", law: oneLaw }),
      /filters that leave at least one law/,
    );
    assert.match(await problem({}), /address of the backend’s module is missing/);
  });

  it("starts by itself where its address says so, but never code from elsewhere", async () => {
    const own = await open({ backend: configured, law: oneLaw, start: "" });
    await own.until("it is done", () => own.state === "done");
    own.close();
    const foreign = await open({ backend: "http://localhost:9/mine.js", law: oneLaw, start: "" });
    assert.equal(foreign.state, "idle");
    await new Promise((resolve) => setTimeout(resolve, 50));
    assert.equal(foreign.state, "idle");
  });

  it("brings the licenses of what is bundled with it", async () => {
    const text = await (await fetch(new URL("bundle/LICENSES.txt", new URL(page, location.href)))).text();
    for (const part of ["fast-check", "pure-rand", "MIT License", "Copyright"]) assert.include(text, part);
  });

  it("has its settings in a link", async () => {
    const shown = await open({ backend: "/a.js", seed: "9" });
    shown.all("#ops input")[1]!.click();
    const { search } = new URL(shown.one<HTMLAnchorElement>("#link").href);
    assert.deepEqual(Object.fromEntries(new URLSearchParams(search)), {
      ...{ backend: "/a.js", seed: "9", ops: "batchedGemm" },
    });
  });
});
