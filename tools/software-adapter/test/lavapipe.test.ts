import { execFile } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { SoftwareAdapterUnavailable, softwareVulkan, unavailableReason } from "@backplane/software-adapter";
import { assert } from "chai";
import { acceptedLavapipe, lavapipeFiles } from "#src/lavapipe.js";

const commandLine = fileURLToPath(new URL("../dist/cli.js", import.meta.url));
const run = promisify(execFile);

async function refusal(work: Promise<unknown>): Promise<string> {
  const error = await work.then(
    () => assert.fail("it was accepted"),
    (thrown: unknown) => thrown,
  );
  assert.instanceOf(error, SoftwareAdapterUnavailable);
  return (error as Error).message;
}

describe("lavapipe", () => {
  let folder: string;
  before(function () {
    if (unavailableReason() !== undefined) this.skip();
  });
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "backplane-lavapipe-"));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  it("is looked for under its names, in the order of the folders", async () => {
    const folders = ["first", "second"].map((name) => join(folder, name));
    for (const path of folders) mkdirSync(path);
    for (const name of ["lvp_icd.x86_64.json", "lvp_icd.i686.json", "radeon_icd.x86_64.json"])
      writeFileSync(join(folders[1]!, name), "{}");
    writeFileSync(join(folders[0]!, "lvp_icd.json"), "{}");
    assert.deepEqual(await lavapipeFiles([join(folder, "missing"), ...folders]), [
      join(folders[0]!, "lvp_icd.json"),
      join(folders[1]!, "lvp_icd.x86_64.json"),
    ]);
  });

  it("says how to get it where there is none", async () => {
    const message = await refusal(acceptedLavapipe([], () => ({})));
    assert.match(message, /lavapipe is not installed.*fetch-lavapipe\.js/);
  });

  it("is refused when Dawn finds no adapter in it, or another one", async () => {
    const { env } = await softwareVulkan();
    const empty = join(folder, "empty.json");
    writeFileSync(empty, "{}");
    const message = await refusal(
      acceptedLavapipe([empty, "swiftshader.json"], (file) =>
        file === empty ? { ...env, VK_ICD_FILENAMES: empty } : env,
      ),
    );
    assert.match(
      message,
      /empty\.json: no adapter; swiftshader\.json: found SwiftShader.*fetch-lavapipe\.js/,
    );
  });

  it("fails a command line, with the reason, when it cannot be loaded", async () => {
    // The loader skips every driver, so this holds whether or not the machine has a lavapipe.
    const env = { ...process.env, VK_LOADER_DRIVERS_DISABLE: "*" };
    const marker = join(folder, "marker");
    const failure = await run(
      process.execPath,
      [commandLine, "--adapter", "lavapipe", "--", "touch", marker],
      { env },
    ).then(
      () => assert.fail("it succeeded"),
      (error: { code: number; stderr: string }) => error,
    );
    assert.equal(failure.code, 1);
    assert.isFalse(existsSync(marker), "the command ran all the same");
    assert.match(failure.stderr, /^No software adapter here: .*fetch-lavapipe\.js/);
  });
});
