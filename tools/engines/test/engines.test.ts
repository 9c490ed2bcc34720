// Tags: engines
import { fileURLToPath } from "node:url";
import { assert } from "chai";
import { type Engine, engineNames, fetchEngine, run } from "#src/engines.js";

const here = (name: string): string => fileURLToPath(new URL(name, import.meta.url));
const conformance = fileURLToPath(new URL("cli.js", import.meta.resolve("@backplane/conformance")));

for (const name of engineNames) {
  describe(`the CPU backend in ${name}`, () => {
    let engine: Engine;
    before("fetch the engine", async () => {
      engine = await fetchEngine(name);
    });

    it("is run by that engine and no other", async () => {
      const [executable] = engine.command;
      const { code, output } = await run([executable!], {
        parameters: ["--version"],
      });
      assert.equal(code, 0, output);
      assert.include(output, engine.version);
    });

    for (const threads of [0, 2])
      for (const ending of ["dispose", "forget"])
        it(`multiplies with ${threads} threads, and ends by itself: ${ending}`, async () => {
          const { code, output } = await run(engine.command, {
            parameters: [here("program.js"), String(threads), ending],
          });
          assert.equal(code, 0, output);
          const { error, details } = JSON.parse(output);
          // 150 roundings of sums below 150, generously.
          assert.isBelow(error, 1e-4);
          assert.isAbove(error, 0, "f32 is not exact here");
          assert.equal(details.threads, String(threads));
          assert.notProperty(details, "threadsUnavailable");
        });

    it("keeps the laws", async () => {
      const { code, output } = await run(engine.command, {
        // Deno has the compiler of Node.js, where all laws are kept.
        parameters: [
          ...[conformance, here("subject.js"), "--mode", "quick"],
          ...["--ops", name === "deno" ? "gemm" : "gemm,reduce,unary"],
        ],
      });
      assert.equal(code, 0, output);
      // One line for each of the two configurations.
      const kept = [...output.matchAll(/^(\d+) kept/gm)].map(([, count]) => Number(count));
      assert.lengthOf(kept, 2, output);
      for (const count of kept) assert.isAbove(count, name === "deno" ? 20 : 50);
    });
  });
}

describe("fetching an engine", () => {
  it("fails where a program cannot be started", async () => {
    const failed = await run([here("no-such-program")], { parameters: [] }).catch((error: unknown) =>
      String(error),
    );
    assert.match(String(failed), /ENOENT/);
  });

  it("ends a program that does not end", async () => {
    const parameters = ["-e", "setInterval(() => {}, 1000)"];
    const { code } = await run([process.execPath], { parameters, limitMilliseconds: 300 });
    assert.isNull(code);
  });
});
