import { readFileSync } from "node:fs";
import { createCpuBackend } from "@backplane/backend-cpu";
import { createWebGpuBackend } from "@backplane/backend-webgpu";
import { type ComputeBackend, inexactBinaryKinds, inexactUnaryKinds } from "@backplane/core";
import { assert } from "chai";

function rangeText(from: number | null, below: number | null): string {
  if (from === null) return below === null ? "all" : `x < ${below}`;
  return below === null ? `x ≥ ${from}` : `${from} ≤ x < ${below}`;
}

/** Rows of the table behind a mark in docs/numerics.md. */
function tableOf(name: string): readonly (readonly string[])[] {
  const text = readFileSync(new URL("../../../docs/numerics.md", import.meta.url), "utf8");
  const [, after] = text.split(`<!-- declared: ${name} -->\n\n`);
  const lines = after!.split("\n\n", 1)[0]!.split("\n");
  return lines.slice(2).map((line) => line.slice(2, -2).split(" | "));
}

for (const [name, create] of [
  ["cpu", () => createCpuBackend({ threads: 0 })],
  ["webgpu", () => createWebGpuBackend()],
] as const)
  describe(`The table of what ${name} declares`, () => {
    it("is what it declares, and no less than was measured", async () => {
      await using backend: ComputeBackend = create();
      await backend.init();
      const { unary = {}, binary = {} } = backend.capabilities.accuracy!;
      const declared = [
        ...inexactUnaryKinds.flatMap((kind) =>
          unary[kind]!.map(({ below = null, units }, i) => {
            const from = unary[kind]![i - 1]?.below ?? null;
            return [kind, rangeText(from, below), String(units)];
          }),
        ),
        ...inexactBinaryKinds.map((kind) => [kind, "all", String(binary[kind])]),
      ];
      const rows = tableOf(name);
      assert.deepEqual(
        rows.map((row) => row.slice(0, 3)),
        declared,
      );
      for (const [kind, range, units, ...cells] of rows) {
        const measured = cells.filter((cell) => cell !== "-");
        assert.isAtLeast(measured.length, 2);
        for (const value of measured) assert.isAtMost(Number(value), Number(units), `${kind}, ${range}`);
      }
    });
  });
