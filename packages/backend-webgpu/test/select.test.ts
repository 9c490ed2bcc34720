import type { BinaryInput } from "@backplane/core";
import { assert } from "chai";
import { planBinary } from "#src/kernels/binary/select.js";
import { elementwise } from "#src/kernels/elementwise/elementwise.wgsl.js";
import { axisTable } from "#src/kernels/elementwise/select.js";
import { unaryFunction } from "#src/kernels/unary/functions.wgsl.js";
import { input, memoized, output, program } from "#src/program/program.js";

describe("webgpu program text", () => {
  it("declares bindings and parameters, and knows where each parameter lies", () => {
    const { source, parameters, parameterBytes } = program({
      name: "example",
      enable: ["f16"],
      bindings: { a: input("half"), b: output("vec4f") },
      parameters: { n: "u32", table: { rows: 3 }, alpha: "f32" },
      body: "fn main() {}",
    });
    assert.deepEqual(
      parameters.map(({ name, word }) => [name, word]),
      [
        ["n", 2],
        ["table", 4],
        ["alpha", 16],
      ],
    );
    assert.equal(parameterBytes, 80);
    assert.equal(
      source,
      [
        "enable f16;",
        "struct Parameters {",
        "  a_offset: u32,",
        "  b_offset: u32,",
        "  n: u32,",
        "  table: array<vec4<u32>, 3>,",
        "  alpha: f32,",
        "}",
        "@group(0) @binding(0) var<storage, read> a: array<u32>;",
        "@group(0) @binding(1) var<storage, read_write> b: array<vec4<f32>>;",
        "@group(0) @binding(2) var<uniform> parameters: Parameters;",
        "",
        "fn main() {}",
        "",
      ].join("\n"),
    );
  });

  it("tells apart whatever arguments follow one another", () => {
    const generate = memoized((form: object | undefined, value?: unknown) => ({ form, value }));
    const lists: [object | undefined, unknown?][] = [
      [{ a: 1, b: 2 }],
      [{ a: 1, b: 3 }],
      [{ a: 1 }],
      [{ a: 1, c: 2 }],
      [{ a: { b: 2 } }],
      [{ a: { b: 2 }, c: 2 }],
      [{ a: undefined }],
      [{}],
      [undefined],
      [undefined, undefined],
      [undefined, Number.NaN],
      [undefined, 0],
      [undefined, "0"],
      [{ a: 1, b: 2 }, 0],
    ];
    const first = lists.map((list) => generate(...list));
    assert.equal(new Set(first).size, lists.length);
    for (const [i, list] of lists.entries()) {
      assert.equal(generate(...list), first[i]);
      for (const [j, other] of lists.entries()) {
        assert.equal(generate(...list), first[i]);
        assert.equal(generate(...other), first[j]);
      }
    }
  });

  it("generates each program once", () => {
    let calls = 0;
    const generate = memoized((tile: { readonly size: number }) => `${tile.size} ${calls++}`);
    assert.equal(generate({ size: 1 }), generate({ size: 1 }));
    assert.notEqual(generate({ size: 1 }), generate({ size: 2 }));
    assert.equal(calls, 2);
  });

  it("holds no problem sizes, and only the functions that it uses", () => {
    const types = { dtype: "f32", outputType: "f32" } as const;
    const tile = { name: "unary_erf", ...types, sources: ["contiguous"], wide: true, axes: 0 } as const;
    const { name, source } = elementwise(tile, unaryFunction("erf"));
    assert.equal(name, "unary_erf_f32_wide_contiguous");
    assert.include(source, "fn error_complement");
    assert.notInclude(source, "fn logarithm");
    assert.equal(source.split("fn or_nan(").length, 2);
  });
});

describe("webgpu binary plans", () => {
  const memory = {};
  const region = (elements: number, byteOffset = 0, owner: unknown = {}) => ({
    memory: owner,
    byteOffset,
    byteLength: 4 * elements,
  });
  const input = (elements: number, strides: readonly number[], byteOffset = 0): BinaryInput<unknown> => ({
    region: region(elements, byteOffset),
    strides,
  });
  const output = region(48, 0, memory);
  const problem = { dtype: "f32", kind: "add", shape: [6, 8], output } as const;

  it("takes vectors where all is aligned, one number at a time where not", () => {
    const a = input(48, [8, 1]);
    assert.deepInclude(planBinary({ ...problem, a, b: a }), {
      sources: ["contiguous", "contiguous"],
      wide: true,
    });
    assert.isFalse(planBinary({ ...problem, a, b: input(48, [8, 1], 4) }).wide);
    assert.isFalse(planBinary({ ...problem, output: region(48, 8), a, b: a }).wide);
  });

  it("counts vectors along the innermost axis when it broadcasts", () => {
    const a = input(48, [8, 1]);
    const row = planBinary({ ...problem, a, b: input(8, [0, 1]) });
    assert.deepEqual(row.sources, ["contiguous", "strided"]);
    // Extent, then strides: those of a are not used, since it runs along with the output.
    assert.deepEqual(
      row.table.map(([extent, , strideB]) => [extent, strideB]),
      [
        [6, 0],
        [2, 1],
      ],
    );
    const column = planBinary({ ...problem, a, b: input(6, [1, 0], 4) });
    assert.deepEqual(column.sources, ["contiguous", "repeated"]);
    assert.isTrue(column.wide);
    assert.isFalse(planBinary({ ...problem, a, b: input(8, [0, 1], 4) }).wide);
    assert.isFalse(planBinary({ ...problem, shape: [8, 6], a: input(48, [6, 1]), b: input(6, [0, 1]) }).wide);
  });

  it("reads an operand that is the output through the output", () => {
    const same = { region: problem.output, strides: [8, 1] };
    assert.deepEqual(planBinary({ ...problem, a: same, b: { scalar: 2 } }).sources, ["output", "scalar"]);
  });

  it("has a table for every rank that fits into memory", () => {
    assert.equal(axisTable(1), 4);
    assert.equal(axisTable(31), 32);
    assert.throws(() => axisTable(33));
  });
});
