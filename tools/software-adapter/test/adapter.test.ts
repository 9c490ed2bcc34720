import { execFile } from "node:child_process";
import { access, constants } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { headlessChromium, softwareVulkan, unavailableReason } from "@backplane/software-adapter";
import { assert } from "chai";

const program = fileURLToPath(new URL("../dist/open-adapter.js", import.meta.url));
const commandLine = fileURLToPath(new URL("../dist/cli.js", import.meta.url));
const run = promisify(execFile);

describe("software adapter", () => {
  before(function () {
    if (unavailableReason() !== undefined) this.skip();
  });

  it("gives Dawn a SwiftShader adapter and a device", async () => {
    const { env } = await softwareVulkan();
    const { stdout } = await run(process.execPath, [program], { env: { ...process.env, ...env } });
    const found = JSON.parse(stdout) as { found: boolean; description: string; architecture: string };
    assert.isTrue(found.found);
    assert.match(`${found.architecture} ${found.description}`, /swiftshader/i);
  });

  it("runs a command line and passes its exit code on", async () => {
    const { stdout } = await run(process.execPath, [commandLine, "--", process.execPath, program]);
    assert.isTrue((JSON.parse(stdout) as { found: boolean }).found);
    const failure = await run(process.execPath, [
      commandLine,
      "--",
      process.execPath,
      "-e",
      "process.exit(7)",
    ]).then(
      () => undefined,
      (error: { code: number }) => error,
    );
    assert.equal(failure?.code, 7);
  });

  it("says so if there is no such command", async () => {
    const failure: { code: number; stderr: string } = await run(process.execPath, [
      commandLine,
      "--",
      "no-such-command",
    ]).then(
      () => assert.fail("it ran"),
      (error) => error,
    );
    assert.deepEqual([failure.code, failure.stderr], [1, "spawn no-such-command ENOENT\n"]);
  });

  it("unpacks a Chromium that can be executed", async () => {
    const { executablePath } = await headlessChromium();
    await access(executablePath, constants.X_OK);
  });
});
