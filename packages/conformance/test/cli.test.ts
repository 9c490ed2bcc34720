// Tags: proof
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { TraceBackend, upload } from "@backplane/core";
import { assert } from "chai";
import { main } from "#src/cli/main.js";
import { checkCase, createReferenceBackend, type LawFailure, parseReport } from "#src/index.js";
import { mutant } from "./support/backends.js";
import { backendModule, called, command } from "./support/command.js";

describe("The command line program", () => {
  let folder = "";
  const inFolder = (name: string) => join(folder, name);
  const text = (name: string) => readFile(inFolder(name), "utf8");
  /** Little, so that each of these runs takes well below a second. */
  const little = ["--ops", "unary,binary", "--dtype", "f32", "--law", "touches"];

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "backplane-cli-"));
  });
  after(() => rm(folder, { recursive: true }));

  it("ends with 0 where all laws are kept, and writes every kind of report", async () => {
    const files = [
      "--json",
      inFolder("deep/report.json"),
      "--md",
      inFolder("a.md"),
      "--html",
      inFolder("a.html"),
    ];
    const { code, output, errors } = await command([backendModule("healthy"), ...little, ...files]);
    assert.equal(code, 0, errors);
    assert.equal(errors, "");
    assert.match(output, /^\S+healthy\.js: reference on JavaScript, double precision$/m);
    assert.match(output, /^2 kept; 40 cases, seed 1, /m);
    assert.match(output, /^unary f32 +1 +0 /m);
    const report = parseReport(await text("deep/report.json"));
    assert.deepInclude(report.totals, { laws: 2, kept: 2, broken: 0, cases: 40 });
    assert.deepEqual(report.run.filters, {
      operations: ["unary", "binary"],
      dtypes: ["f32"],
      law: "touches",
    });
    assert.match(await text("a.md"), /^# Conformance of /);
    assert.match(await text("a.html"), /^<!doctype html>/);
  });

  it("has one line for all operations that a backend lacks", async () => {
    const { code, output } = await command([backendModule("lacking"), "--law", "touches", "--mode", "quick"]);
    assert.equal(code, 0);
    assert.match(output, /^unsupported: \d+ of \d+ operations \(gemm, .*, sort, .*\); unary in f16, .*$/m);
    assert.lengthOf(output.match(/\bsort\b/g) ?? [], 1);
    assert.match(output, /^unary +\d+ kept/m);
  });

  it("replays a trace, and says which call and which read differ", async () => {
    const chunks: Uint8Array[] = [];
    const backend = new TraceBackend(createReferenceBackend(), (chunk) => void chunks.push(chunk));
    await backend.init();
    const a = upload(
      backend,
      Float32Array.from({ length: 25 }, (_, i) => i),
    );
    const c = backend.alloc(100);
    backend.gemm({ m: 5, n: 5, k: 5, a, b: a, c });
    await backend.copyDtoH(new Float32Array(25), c);
    await backend.dispose();
    const bytes = Uint8Array.from(chunks.flatMap((chunk) => [...chunk]));
    const [whole, cut] = [inFolder("whole.trace"), inFolder("cut.trace")];
    await writeFile(whole, bytes);
    await writeFile(cut, bytes.subarray(0, -2));

    const same = await command(["replay", whole, backendModule("healthy")]);
    assert.equal(same.code, 0, same.errors);
    assert.match(same.output, /: 2 calls, 2 allocations, 1 reads\nreads: 0 differ; .* is 0$/m);
    assert.match(same.output, /^calls: 3 compared, 0 out of bounds$/m);

    const other = await called(["replay", whole, backendModule("broken")]);
    assert.equal(other.code, 1, other.errors);
    assert.match(other.output, /^reads: 1 differ/m);
    assert.match(
      other.output,
      /^CompareBackend: gemm, call 2: element \d+ of c is wrong on .*, the worst of /m,
    );
    const plain = await called([
      "replay",
      whole,
      backendModule("broken"),
      "--no-compare",
      "--tolerance",
      "9",
    ]);
    assert.equal(plain.code, 0, plain.errors);

    const ended = await called(["replay", cut, backendModule("healthy")]);
    assert.equal(ended.code, 2);
    assert.match(
      ended.errors,
      /cut\.trace: replayTrace: source was cut off: it has no end; 2 calls were made/,
    );
    assert.equal((await called(["replay", cut, backendModule("healthy"), "--allow-cut"])).code, 0);
    // How a replay ended counts, although the backend does not end well.
    const undisposable = backendModule("undisposable");
    const unending = await called(["replay", cut, undisposable]);
    assert.equal(unending.code, 2, unending.errors);
    assert.match(unending.errors, /source was cut off/);
    const held = await command(["replay", whole, undisposable, "--no-compare"]);
    assert.equal(held.code, 1, held.errors);
    assert.match(held.output, /reads: 0 differ/);
    assert.match(held.errors, /could not be disposed of: .*it is still there/);

    const screen = { write: () => true };
    const stopped = { output: screen, errors: screen, signal: AbortSignal.abort() };
    assert.equal(await main(["replay", whole, backendModule("healthy")], stopped), 130);

    for (const [args, reason] of [
      [["replay", folder, backendModule("healthy")], /cannot be read/],
      [["replay", inFolder("none"), "x"], /there is no file/],
      [["replay"], /which file has the trace/],
      [["replay", whole], /which module has the backend/],
      [["replay", whole, "x", "--tolerance", "-1"], /--tolerance is|argument is ambiguous/],
    ] as const) {
      const { code, errors } = await called(args);
      assert.equal(code, 2);
      assert.match(errors, reason);
    }
    assert.match(
      (await called(["replay", "--help"])).output,
      /^Usage: backplane-conformance replay FILE MODULE/,
    );
  });

  it("ends with 1 where a law is broken, and shows how; the replay ends on the same case", async () => {
    const module = backendModule("broken");
    const found = await command([
      module,
      "--ops",
      "gemm",
      "--dtype",
      "f32",
      "--law",
      "exact on whole",
      "--seed",
      "5",
    ]);
    assert.equal(found.code, 1, found.errors);
    const line = (output: string, name: string) => new RegExp(`^ {2}${name} +(.*)$`, "m").exec(output)?.[1];
    assert.include(found.output, "BROKEN gemm f32: is exact on whole numbers");
    assert.equal(line(found.output, "operation"), "gemm f32");
    assert.match(line(found.output, "wrong")!, /^\d+ of \d+ results, first result 0: error \S+, allowed 0$/);
    const [got, expected] = [line(found.output, "got")!, line(found.output, "expected")!];
    assert.notEqual(got, expected);

    const [, replay] = /--replay '(.*)'$/.exec(line(found.output, "replay")!)!;
    assert.equal(JSON.parse(replay!).seed, 5);
    const again = await called([module, "--replay", replay!]);
    assert.equal(again.code, 1);
    for (const name of ["in a test", "wrong", "got", "expected", "replay"])
      assert.equal(line(again.output, name), line(found.output, name), name);

    // What is to be pasted into a test, done here.
    const [, law, literal] = /checkCase\(.*?\}, ("[^"]*"), (.*)\);$/.exec(line(found.output, "in a test")!)!;
    const value: unknown = new Function(`return ${literal}`)();
    await checkCase({ name: "healthy", create: createReferenceBackend }, JSON.parse(law!), value);
    const failure = await checkCase(
      { name: "broken", create: mutant("drops the last k") },
      JSON.parse(law!),
      value,
    ).then(
      () => undefined,
      (error: LawFailure) => error,
    );
    assert.equal(failure?.name, "LawFailure");
    assert.include(failure!.message, got.trim());
  });

  it("tests each of several configurations, with files of its own, and takes one by its name", async () => {
    const module = backendModule("several");
    const both = await called([
      module,
      ...little.slice(0, 4),
      "--law",
      "transposed",
      "--json",
      inFolder("each.json"),
    ]);
    assert.equal(both.code, 2, "filters that leave nothing");
    const args = [module, "--ops", "gemm", "--law", "f32: is exact", "--json", inFolder("each.json")];
    const { code, output } = await command(args);
    assert.equal(code, 1, output);
    assert.match(output, /guard +wrote 1 elements past the end of c \(f32\)/);
    assert.match(output, /--config 'with overrun\/2'|--config "?with/);
    assert.equal(parseReport(await text("each.plain.json")).totals.broken, 0);
    const broken = parseReport(await text("each.with-overrun-2.json"));
    assert.match(broken.laws[0]!.failure!.guard!, /past the end of c/);

    const one = await called([...args.slice(0, 5), "--config", "plain"]);
    assert.equal(one.code, 0, one.output);
    for (const exported of ["createLater", "configured"]) {
      const other = await called([...args.slice(0, 5), "--export", exported]);
      assert.equal(other.code, 0, other.output);
    }
  });

  it("ends with 3 where the backend cannot be opened, or its module fails", async () => {
    const unopened = await command([backendModule("unopened"), ...little]);
    assert.equal(unopened.code, 3);
    assert.match(unopened.errors, /could not be opened: BackendError: init: no such device on this machine/);
    const failing = await called([backendModule("failing-module"), ...little]);
    assert.equal(failing.code, 3);
    assert.match(failing.errors, /could not be loaded: Error: a driver library is missing/);
    for (const [exported, found] of [
      ["nothing", "undefined"],
      ["halfway", "an object with name, init"],
    ] as const) {
      const { code, errors } = await called([backendModule("several"), ...little, "--export", exported]);
      assert.equal(code, 3, errors);
      assert.include(errors, `create: it made ${found}; needed: a backend, or a provider of one`);
      assert.notInclude(errors, "    at ", "a stack is no help there");
    }
  });

  it("ends with 2 where the command line makes no sense, and says what is allowed", async () => {
    const module = backendModule("healthy");
    const ended = await command([]);
    assert.equal(ended.code, 2);
    assert.match(ended.errors, /which module/);
    for (const [args, message] of [
      [[folder], /-cli-.*" is a folder; name a file/],
      [["./not-there.js"], /there is no file "\.\/not-there\.js"/],
      [["not-installed"], /no file and no package "not-installed"/],
      [[backendModule("without-backend")], /has no default export.*\{ name, create \}/],
      [[backendModule("several"), "--export", "nonsense"], /nonsense.*createLater/],
      [[backendModule("several"), "--config", "fancy"], /"fancy".*plain, with overrun/],
      [[module, "--diff", inFolder("no.json")], /--diff .*no\.json/],
    ] as const) {
      const { code, errors, output } = await called(args);
      assert.equal(code, 2, `${args.join(" ")}: ${output}`);
      assert.match(errors, message);
    }
  });

  it("compares with an earlier report", async () => {
    const law = ["--ops", "gemm", "--dtype", "f32", "--law", "is exact"];
    const json = inFolder("earlier.json");
    await called([backendModule("broken"), ...law, "--json", json]);
    const md = inFolder("diff.md");
    const { code, output } = await command([
      backendModule("healthy"),
      ...law,
      "--diff",
      json,
      "--json",
      json,
      "--md",
      md,
    ]);
    assert.equal(code, 0, output);
    assert.match(output, /now kept: gemm f32: is exact on whole numbers \(was broken\)/);
    assert.include(await readFile(md, "utf8"), "gemm f32: is exact on whole numbers");
    assert.equal(parseReport(await readFile(json, "utf8")).totals.broken, 0, "the file is replaced");
    const same = await called([backendModule("healthy"), ...law, "--diff", json]);
    assert.match(same.output, /nothing has changed/);
    await writeFile(json, "{}");
    const other = await called([backendModule("healthy"), ...law, "--diff", json]);
    assert.equal(other.code, 2);
    assert.match(other.errors, /no conformance report/);
  });

  it("ends with 4 where the time budget does not reach all laws, and says so", async () => {
    const { code, output } = await command([backendModule("healthy"), "--time-budget", "1ms"]);
    assert.equal(code, 4, output);
    assert.match(
      output,
      /the time budget of 0\.001 s was used up: \d+ of \d+ laws were not finished with seed 1/,
    );
  });

  it("goes on with new seeds in soak mode until it is stopped", async () => {
    const json = inFolder("soak.json");
    let isSent = false;
    const { code, output } = await command(
      [
        ...[
          backendModule("healthy"),
          "--ops",
          "unary",
          "--dtype",
          "f32",
          "--law",
          "unary f32: abs",
          "--mode",
          "soak",
        ],
        ...["--time-budget", "10h", "--json", json],
      ],
      (soFar, kill) => {
        if (isSent || !soFar.includes("seed 4")) return;
        isSent = true;
        kill("SIGINT");
      },
    );
    assert.equal(code, 130, output);
    const { run, totals, laws } = parseReport(await readFile(json, "utf8"));
    assert.isAtLeast(run.seeds.length, 4);
    assert.deepEqual(
      run.seeds,
      run.seeds.map((_, i) => i + 1),
    );
    assert.equal(run.timeBudgetMilliseconds, 36_000_000);
    assert.equal(totals.broken, 0);
    assert.isAtLeast(laws[0]!.cases, 3 * (run.seeds.length - 1));
    assert.match(output, new RegExp(`${run.seeds.length} seeds from 1`));
  });

  it("prints what is known after Ctrl-C, and ends with 130", async () => {
    const json = inFolder("stopped.json");
    let isSent = false;
    const { code, output, errors } = await command(
      [backendModule("healthy"), "--json", json],
      (soFar, kill) => {
        if (isSent || !soFar.includes("gemm ")) return;
        isSent = true;
        kill("SIGINT");
      },
    );
    assert.equal(code, 130, output);
    assert.match(errors, /ending after the case under way/);
    assert.match(output, /the run was stopped: \d+ of \d+ laws were not finished/);
    const { run, totals } = parseReport(await readFile(json, "utf8"));
    assert.isFalse(run.complete);
    assert.isAbove(totals.kept, 0);
    assert.isAbove(totals.unfinished, 0, "it does not go on to the end");
  });

  it("ends with 141 and without a word if nobody reads on", async () => {
    const { code, errors } = await command([backendModule("healthy"), "--mode", "soak"], (_, __, close) =>
      close(),
    );
    assert.deepEqual([code, errors], [141, ""]);
  });

  it("ends with 1 if a backend ends the process, and says during which law", async () => {
    const { code, output, errors } = await command([backendModule("exiting"), ...little]);
    assert.equal(code, 1, output);
    assert.match(
      errors,
      /^the process was ended after the law .*touches.* had begun, by the backend or its runtime$/m,
    );
  });

  it("ends though a backend leaves something running, and says so", async () => {
    const { code, errors } = await command([backendModule("lingering"), ...little]);
    assert.equal(code, 0);
    assert.match(errors, /keeps the process alive/);
  });
});
