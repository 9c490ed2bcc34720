import { costOf, type MapArguments, type MapNode, mapLimits } from "@backplane/core";
import { assert } from "chai";
import { throws } from "../support/fake-driver.js";
import { place, problemOf, resolve, slice } from "../support/resolve.js";

/** outputs[0] = inputs[0] inputs[1] + parameters[0]. */
const nodes: readonly MapNode[] = [
  ...[{ input: 0 }, { input: 1 }, { parameter: 0 }],
  ...([
    { binary: "mul", a: 0, b: 1 },
    { binary: "add", a: 3, b: 2 },
  ] as const),
];

const plain: MapArguments = {
  ...{ shape: [2, 3, 4], inputs: [place(1), place(2)], parameters: [0.5] },
  ...{ nodes, results: [4], outputs: [place(3)] },
};

const problemWith = (change: object) => problemOf("map", { ...plain, ...change });

function refuses(change: object, argument: string, message = /./): void {
  throws("INVALID_ARGUMENT", () => resolve("map", { ...plain, ...change }), argument);
  assert.throws(() => resolve("map", { ...plain, ...change }), message);
}

/** Refuses these nodes after two inputs and a parameter. */
function refusesNode(node: object, argument: string, message?: RegExp): void {
  refuses({ nodes: [...nodes.slice(0, 3), node], results: [0] }, argument, message);
}

describe("map descriptor", () => {
  it("merges axes, and gives strides for each input", () => {
    const { shape, n, inputs } = problemWith({});
    assert.deepEqual([shape, n, inputs.map(({ strides }) => strides)], [[24], 24, [[1], [1]]]);
    const rows = problemWith({ inputShapes: [undefined, [4]] });
    assert.deepEqual(rows.shape, [6, 4]);
    assert.deepEqual(
      rows.inputs.map(({ strides }) => strides),
      [
        [4, 1],
        [0, 1],
      ],
    );
    const middle = problemWith({
      inputShapes: [
        [3, 1],
        [2, 1, 4],
      ],
    });
    assert.deepEqual(middle.shape, [2, 3, 4]);
    assert.deepEqual(
      middle.inputs.map(({ strides }) => strides),
      [
        [0, 1, 0],
        [4, 0, 1],
      ],
    );
    assert.deepEqual(problemWith({ shape: [], inputShapes: [[], [1, 1].slice(2)] }).shape, []);
  });

  it("keeps an axis that is counted, and makes a zero of one with a single place", () => {
    const counting = (axis: number, shape: readonly number[]) =>
      problemOf("map", {
        ...{ shape, inputs: [], outputs: [place(1)], outputTypes: ["i32"] },
        ...{ nodes: [{ index: axis }], results: [-1] },
      });
    assert.deepEqual(counting(0, [6, 5, 4]).shape, [6, 20]);
    assert.deepEqual(counting(1, [6, 5, 4]).shape, [6, 5, 4]);
    assert.deepEqual(counting(2, [6, 5, 4]).shape, [30, 4]);
    assert.deepEqual(counting(1, [6, 5, 4]).steps, [{ step: "index", type: "i32", axis: 1 }]);
    assert.deepEqual(counting(2, [6, 5, 4]).steps, [{ step: "index", type: "i32", axis: 1 }]);
    assert.deepEqual(counting(1, [6, 1, 4]).steps, [{ step: "constant", type: "i32", value: 0 }]);
    assert.deepEqual(counting(1, [6, 1, 4]).shape, [24]);
  });

  it("drops what no result needs, and computes what is the same once", () => {
    const problem = problemWith({
      inputs: [place(1), place(2), place(4)],
      nodes: [
        ...[{ input: 1 }, { input: 2 }, { input: 2 }, { input: 0 }, { unary: "exp", x: 3 }],
        ...[
          { binary: "add", a: 1, b: 2 },
          { unary: "exp", x: 5 },
          { binary: "add", a: 2, b: 1 },
        ],
      ],
      results: [6],
    });
    assert.deepEqual(problem.steps, [
      { step: "input", type: "f32", input: 0 },
      { step: "binary", type: "f32", of: "f32", kind: "add", a: 0, b: 0 },
      { step: "unary", type: "f32", of: "f32", kind: "exp", x: 1 },
    ]);
    assert.deepEqual(
      problem.inputs.map(({ region }) => region.memory),
      [4],
    );
    assert.deepEqual(problem.parameters, []);
    assert.deepEqual(problem.outputs[0]?.result, 2);
  });

  it("has one key for each structure, whatever the sizes and parameters", () => {
    const { key } = problemWith({});
    assert.equal(problemWith({ shape: [7], parameters: [3] }).key, key);
    assert.equal(problemWith({ inputShapes: [[1, 1, 1], undefined] }).key, key);
    assert.equal(problemWith({ inputs: [place(5), place(6)] }).key, key);
    assert.notEqual(problemWith({ results: [3] }).key, key);
    assert.notEqual(problemWith({ inputTypes: ["f32", "f16"] }).key, key);
    assert.notEqual(problemWith({ outputTypes: ["f16"] }).key, key);
    const zero = (constant: number) => problemWith({ nodes: [{ constant }], results: [0] }).key;
    assert.notEqual(zero(0), zero(-0));
  });

  it("gives parameters in the type that nodes take them for", () => {
    assert.deepEqual(problemWith({ parameters: [0.1] }).parameters, [
      { type: "f32", value: Math.fround(0.1) },
    ]);
    const whole = { nodes: [{ parameter: 1, type: "i32" }], results: [0], outputTypes: ["i32"] } as const;
    assert.deepEqual(problemWith({ ...whole, parameters: [0.1, -3] }).parameters, [
      { type: "i32", value: -3 },
    ]);
    refuses({ ...whole, parameters: [0, 0.5] }, "parameters[1]", /allowed: whole numbers from/);
    refuses({ parameters: [Number.NaN] }, "parameters[0]");
    refuses({ parameters: [1, "2"] }, "parameters[1]");
    refuses(
      { nodes: [...nodes, { parameter: 0, type: "u32" }] },
      "nodes[5].type",
      /nodes\[2\] takes parameter 0 for f32/,
    );
    refuses({ parameters: Array(mapLimits.parameters + 1).fill(0) }, "parameters");
  });

  it("says which node is wrong, and what is meant", () => {
    refusesNode({ unary: "exq", x: 0 }, "nodes[3].unary", /is exp meant\?/);
    refusesNode({ binary: "addd", a: 0, b: 1 }, "nodes[3].binary", /is add meant\?/);
    refusesNode({ input: 2 }, "nodes[3].input", /0 to 1, as there are 2 inputs/);
    refusesNode({ parameter: -1 }, "nodes[3].parameter");
    refusesNode({ index: 3 }, "nodes[3].index", /3 axes/);
    refusesNode({ constant: Number.POSITIVE_INFINITY }, "nodes[3].constant");
    refusesNode({ constant: 0.5, type: "i32" }, "nodes[3].constant");
    refusesNode({ constant: 1, type: "f16" }, "nodes[3].type");
    refusesNode({ unary: "exp", x: 3 }, "nodes[3].x", /earlier nodes, 0 to 2/);
    refusesNode({ unary: "exp", x: "0" }, "nodes[3].x", /is "0"; allowed: earlier nodes/);
    refusesNode({ input: "0" }, "nodes[3].input", /is "0"/);
    refusesNode({ binary: "add", a: 0, b: 4 }, "nodes[3].b");
    refusesNode({ convert: "f16", x: 0 }, "nodes[3].convert");
    refusesNode({ unary: "exp" }, "nodes[3].x");
    refusesNode({ unary: "exp", y: 0 }, "nodes[3].y", /is unknown of a node with unary/);
    refusesNode({ x: 0 }, "nodes[3]", /has the fields x; allowed: one of input, parameter/);
    refusesNode({ unary: "exp", input: 0 }, "nodes[3].input");
    refusesNode([0], "nodes[3]");
    refuses({ nodes: [], results: [0] }, "results[0]");
    refuses({ nodes: Array(mapLimits.nodes + 1).fill({ input: 0 }) }, "nodes");
  });

  it("looks at nodes anew in every call, whatever it knows of them", () => {
    const changing: Record<string, unknown>[] = [{ input: 0 }, { unary: "exp", x: 0 }];
    const call = () => problemWith({ nodes: changing, results: [1] });
    const { key } = call();
    assert.equal(call().key, key);
    changing[1]!.unary = "neg";
    assert.notEqual(call().key, key);
    // Their texts would be those of nodes that are right.
    const wrong = (node: object, argument: string) => {
      problemWith({ nodes: [...nodes, { unary: "exp", x: 1 }], results: [5] });
      problemWith({ nodes: [...nodes, { constant: 1 }], results: [5] });
      refuses({ nodes: [...nodes, node], results: [5] }, argument);
    };
    wrong({ unary: "exp", x: "1" }, "nodes[5].x");
    wrong({ unary: ["exp"], x: 1 }, "nodes[5].unary");
    wrong({ constant: "1" }, "nodes[5].constant");
    wrong({ constant: 1, type: ["f32"] }, "nodes[5].type");
    wrong({ unary: "exp", x: 1, y: 2 }, "nodes[5].y");
    refuses({ results: ["4"] }, "results[0]");
    refuses({ inputs: [place(1)] }, "nodes[1].input");
    refuses({ parameters: [] }, "nodes[2].parameter");
  });

  it("makes of frozen nodes, again and again, what it makes of others", () => {
    const frozen = Object.freeze(nodes.map((node) => Object.freeze({ ...node })));
    const fits = [
      {},
      { results: [3] },
      { dtype: "f16" },
      { inputTypes: ["f16", "f32"], outputTypes: ["f32"] },
      { shape: [24] },
      { parameters: [0.5, 7] },
      { results: [3, 4], outputs: [place(3), place(4)] },
      ...Array.from({ length: 12 }, (_, i) => ({ parameters: new Array<number>(i + 2).fill(i) })),
    ];
    const wrong = [
      { inputTypes: ["i32", "f32"] },
      { outputTypes: ["i32"] },
      { parameters: [] },
      { results: [5] },
      { inputs: [place(1)] },
    ];
    for (let round = 0; round < 3; round++) {
      for (const change of fits)
        assert.deepEqual(problemWith({ ...change, nodes: frozen }), problemWith(change));
      for (const change of wrong)
        throws("INVALID_ARGUMENT", () => resolve("map", { ...plain, ...change, nodes: frozen } as never));
    }
    // A list that only looks frozen: its nodes are not.
    const open: { readonly input: number } | { input: number } = { input: 0 };
    const half = Object.freeze([open, ...nodes.slice(1)]);
    const before = problemWith({ nodes: half });
    Object.assign(open, { input: 1 });
    const after = problemWith({ nodes: half });
    assert.equal(before.inputs.length, 2);
    assert.equal(after.inputs.length, 1);
    // Nor does freezing fix what is computed.
    let input = 0;
    const computed = Object.freeze({
      get input() {
        return input;
      },
    });
    const list = Object.freeze([computed, ...frozen.slice(1)]);
    assert.equal(problemWith({ nodes: list }).inputs.length, 2);
    input = 1;
    assert.equal(problemWith({ nodes: list }).inputs.length, 1);
  });

  it("refuses types that do not fit, and says how to convert", () => {
    refusesNode({ select: 0, a: 0, b: 1 }, "nodes[3].select", /u8, as comparisons give it/);
    const mixed = { nodes: [{ input: 0 }, { index: 0 }, { binary: "add", a: 0, b: 1 }], results: [0] };
    refuses(
      mixed,
      "nodes[2].b",
      /node 1, which gives i32; allowed: f32, as a is .use a node { convert: type/,
    );
    refuses({ ...mixed, nodes: [{ index: 0 }, { unary: "exp", x: 0 }] }, "nodes[1].x", /f32 for exp/);
    refuses({ ...mixed, nodes: [{ index: 0 }, { binary: "pow", a: 0, b: 0 }] }, "nodes[1].a");
    refuses({ nodes: [{ index: 0 }], results: [0] }, "results[0]", /gives i32; allowed: nodes that give f32/);
    refuses({ outputTypes: ["u8"] }, "results[0]");
    assert.equal(problemWith({ outputTypes: ["f16"] }).outputs[0]?.region.byteLength, 48);
  });

  it("refuses lists that do not fit together", () => {
    refuses({ inputShapes: [[4]] }, "inputShapes");
    refuses({ inputShapes: [[4], [3]] }, "inputShapes[1]", /what broadcasts to \[2, 3, 4\]/);
    refuses({ inputShapes: [[1, 2, 3, 4], undefined] }, "inputShapes[0]");
    refuses({ inputTypes: ["f32"] }, "inputTypes");
    refuses({ inputTypes: ["f32", "bf16"] }, "inputTypes[1]");
    refuses({ outputTypes: [] }, "outputTypes");
    refuses({ results: [4, 4] }, "results");
    refuses({ results: [5] }, "results[0]");
    refuses({ outputs: [] }, "outputs", /a list of 1 to 8 operands/);
    refuses({ inputs: Array(17).fill(place(1)) }, "inputs", /a list of 17; allowed: a list of 0 to 16/);
    refuses({ shape: Array(9).fill(1) }, "shape");
  });

  it("takes an output over an input of the same type and shape, and no other overlap", () => {
    problemWith({ outputs: [place(2)] });
    refuses({ outputs: [slice(2, 4)] }, "outputs[0]");
    refuses({ outputs: [place(2)], inputShapes: [undefined, [4]] }, "outputs[0]");
    refuses(
      { inputTypes: ["f32", "i32"], nodes: [{ input: 0 }], results: [0], outputs: [place(2)] },
      "outputs[0]",
    );
    refuses({ results: [3, 4], outputs: [place(3), slice(3, 92)] }, "outputs[1]");
    problemWith({ results: [3, 4], outputs: [place(3), slice(3, 96)] });
  });

  it("leaves nothing to do without elements", () => {
    assert.isUndefined(resolve("map", { ...plain, shape: [2, 0, 4] }).problem);
    assert.isUndefined(resolve("map", { ...plain, shape: [0], inputShapes: [[1], undefined] }).problem);
  });

  it("costs what its inputs and outputs hold, and one operation for each function", () => {
    assert.deepEqual(costOf("map", { ...plain, inputShapes: [undefined, [4]] }), { flops: 48, bytes: 208 });
  });
});
