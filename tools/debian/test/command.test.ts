import { execFileSync, spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { assert } from "chai";

const commands = [
  "../dist/fetch-openblas.js",
  "../dist/fetch-mpi.js",
  "../../software-adapter/dist/fetch-lavapipe.js",
].map((path) => fileURLToPath(new URL(path, import.meta.url)));

describe("commands that fetch", () => {
  for (const command of commands) {
    it(`${command.split("/").at(-1)} says what it fetches, and fetches nothing for words that it does not know`, () => {
      assert.match(
        execFileSync(process.execPath, [command, "--help"], { encoding: "utf8" }),
        /^usage: fetch-/,
      );
      const refused = spawnSync(process.execPath, [command, "--now"], { encoding: "utf8" });
      assert.equal(refused.status, 1);
      assert.match(refused.stderr, /^--now is no option\nusage: fetch-/);
      assert.equal(refused.stdout, "");
    });
  }
});
