import { readFile } from "node:fs/promises";
import * as entry from "@backplane/backend-cpu";
import { assert } from "chai";

describe("@backplane/backend-cpu", () => {
  it("is reached through its exports map", () => {
    assert.typeOf(entry, "Module");
  });

  it("has a worker script that imports by relative path only, since pages map no names in workers", async () => {
    const visited = new Set<string>();
    const visit = async (url: URL): Promise<void> => {
      if (visited.has(url.href)) return;
      visited.add(url.href);
      const source = await readFile(url, "utf8");
      for (const [, specifier] of source.matchAll(/^(?:import|export)\b(?:[^"']*\bfrom)?\s*"([^"]+)"/gm)) {
        assert.match(specifier!, /^\.\.?\//, `in ${url.pathname}`);
        await visit(new URL(specifier!, url));
      }
    };
    await visit(new URL("../dist/queue/worker.js", import.meta.url));
    // The script, what instantiates kernels, the protocol and the features of the machine at least.
    assert.isAtLeast(visited.size, 4);
  });
});
