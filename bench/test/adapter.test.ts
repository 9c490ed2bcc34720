// Tags: kernels
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect } from "chai";
import { parts } from "#src/adapter/parts.js";

interface Ending {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function program(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Ending> {
  const file = fileURLToPath(new URL("../dist/adapter/main.js", import.meta.url));
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      [file, ...args],
      { env: { ...process.env, ...env } },
      (error, stdout, stderr) => resolve({ code: Number(error?.code ?? 0), stdout, stderr }),
    );
  });
}

describe("the program that puts an adapter before the laws", () => {
  let folder: string;

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "adapter-"));
  });

  after(() => rm(folder, { recursive: true }));

  it("lists the parts of several names", async () => {
    const { code, stdout } = await program([
      "--list",
      "--only",
      "tier base",
      "--only",
      "gemm as direct_8x64",
    ]);
    expect(code).to.equal(0);
    expect(stdout.trim().split("\n")).to.deep.equal(["tier baseline", "gemm as direct_8x64"]);
  });

  it("leaves out the kernels of other operations", async () => {
    const { stdout } = await program(["--list", "--ops", "reduce,unary", "--only", " as "]);
    expect(stdout).to.match(/^(reduce as \S+\n)+$/);
  });

  it("reports the laws on the operations asked for that a part keeps", async () => {
    const json = join(folder, "report.json");
    const only = ["--only", "tier base", "--ops", "random"];
    const { code, stdout } = await program(["--mode", "quick", ...only, "--json", json]);
    expect(stdout).to.match(
      /^tier baseline: \d+ laws kept, 0 broken, 0 not promised, 0 unfinished; largest error 0\.\d\d /,
    );
    expect(code).to.equal(0);
    const { operations, parts: reports, seed, mode, lost } = JSON.parse(await readFile(json, "utf8"));
    expect({ operations, seed, mode, lost }).to.deep.equal({
      ...{ operations: ["random"], seed: 1, mode: "quick", lost: [] },
    });
    expect(reports).to.have.lengthOf(1);
    expect(reports[0].kept).to.be.within(5, 300);
    expect(reports[0].worst).to.be.within(0.001, 1);
  });

  it("says of a process that ends without a report why, and fails", async () => {
    const nowhere = { VK_ICD_FILENAMES: "/nowhere.json", VK_DRIVER_FILES: "/nowhere.json" };
    const { code, stdout } = await program(["--only", "tier baseline"], nowhere);
    expect(stdout).to.match(/tier baseline: exit code 1: .*(UNSUPPORTED|no adapter)/s);
    expect(stdout).to.include("1 parts, 0 possible");
    expect(code).to.equal(1);
  });

  it("refuses bad options, and has help", async () => {
    const { code, stderr } = await program(["--jobs", "0"]);
    expect(stderr).to.include("--jobs is 0; allowed: 1 to 64").and.to.include("--only TEXT");
    expect(code).to.equal(2);
    const helped = await program(["--help"]);
    expect(helped.stdout).to.match(/--only TEXT/);
    expect(helped.code).to.equal(0);
    expect((await program(["--list"])).stdout.trim().split("\n")).to.deep.equal(
      parts.map(({ name }) => name),
    );
  });
});
