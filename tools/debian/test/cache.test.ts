import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { assert } from "chai";
import { cachedFolder } from "#src/cache.js";

describe("cached folder", () => {
  const name = `cache-test-${process.pid}`;
  let folder = "";

  after(() => rm(folder, { recursive: true, force: true }));

  it("is filled whole, once, however many ask at the same time", async () => {
    const fill = async (target: string): Promise<void> => {
      await mkdir(join(target, "inner"));
      await writeFile(join(target, "inner", "file"), "whole");
    };
    const folders = await Promise.all(Array.from({ length: 8 }, () => cachedFolder(name, fill)));
    folder = folders[0]!;
    assert.lengthOf(new Set(folders), 1);
    assert.equal(await readFile(join(folder, "inner", "file"), "utf8"), "whole");
    await cachedFolder(name, () => assert.fail("a filled folder was filled again"));
    assert.deepEqual(await leftOvers(), []);
  });

  it("leaves nothing behind when it could not be filled", async () => {
    const failure = await cachedFolder(`${name}-broken`, () => Promise.reject(new Error("no space"))).catch(
      (error: Error) => error.message,
    );
    assert.equal(failure, "no space");
    assert.deepEqual(await leftOvers(), []);
  });

  async function leftOvers(): Promise<string[]> {
    return (await readdir(dirname(folder))).filter(
      (file) => file.startsWith(name) && file !== basename(folder),
    );
  }
});
