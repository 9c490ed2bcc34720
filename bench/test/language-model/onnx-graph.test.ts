import type { Shape } from "@backplane/example-story";
import { expect } from "chai";
import { microsoft } from "#src/cpu/onnx.js";
import { cacheNames, stepGraph, stepInputs, stepOutputs } from "#src/language-model/onnx-graph.js";
import { randomWeights, reordered, rowsOf } from "#src/language-model/weights.js";

const shape: Shape = {
  ...{ size: 64, hidden: 96, layers: 2, heads: 4, kvHeads: 2, headSize: 16, vocabulary: 50, length: 8 },
  ...{ epsilon: 1e-5, frequencies: [1, 0.5, 0.25, 0.125, 0.1, 0.05, 0.02, 0.01] },
};
const weights = randomWeights(shape);

describe("the step of a language model in ONNX", () => {
  for (const fixedReach of [false, true])
    it(`reads only what is there, and gives all outputs${fixedReach ? ", with a fixed reach" : ""}`, () => {
      const graph = stepGraph(shape, weights, { dtype: "f16", room: 8, fixedReach });
      const known = new Set(["", ...Object.keys(graph.inputs), ...Object.keys(graph.initializers!)]);
      for (const { inputs, output } of graph.nodes) {
        expect([...known]).to.include.members([...inputs]);
        for (const name of [output].flat()) {
          if (name !== "") expect(known.has(name), `${name} twice`).to.equal(false);
          known.add(name);
        }
      }
      expect([...known]).to.include.members(Object.keys(graph.outputs));
      expect(stepInputs.reach in graph.inputs).to.equal(!fixedReach);
    });

  it("has a cache of keys and values for each layer, in the type of the model", () => {
    const { inputs, outputs, types } = stepGraph(shape, weights, {
      dtype: "f32",
      room: 8,
      fixedReach: false,
    });
    const caches = cacheNames(shape.layers);
    expect(caches).to.have.length(2 * shape.layers);
    for (const { past, present } of caches) {
      expect(inputs[past]).to.deep.equal([1, 2, 8, 16]);
      expect(outputs[present]).to.deep.equal([1, 2, 8, 16]);
      expect([types[past], types[present]]).to.deep.equal(["float32", "float32"]);
    }
    expect(types[stepOutputs.logits]).to.equal("float32");
  });

  it("multiplies by each matrix once, with all of its rows", () => {
    const { nodes } = stepGraph(shape, weights, { dtype: "f32", room: 8, fixedReach: false });
    const products = nodes.filter(({ op, domain }) => op === "MatMulNBits" && domain === microsoft);
    const sizes = products.map(({ attributes }) => [attributes!.N, attributes!.K]);
    const ofLayer = [
      [128, 64],
      [64, 64],
      [96, 64],
      [96, 64],
      [64, 96],
    ];
    expect(sizes).to.deep.equal([...ofLayer, ...ofLayer, [50, 64]]);
  });
});

it("has the pairs of queries and keys in halves, and values as they were", () => {
  const { initializers } = stepGraph(shape, weights, { dtype: "f32", room: 8, fixedReach: false });
  const stored = initializers!["0 query, key, value numbers"]!.data as Uint8Array;
  const row = (data: Uint8Array, index: number) => [...data.slice(index * 32, (index + 1) * 32)];
  const given = weights.layers[0]!.queryKeyValue.stored;
  // Row 16 + 3 is of the second head: pair 3 begins it in ours at 6, and ends it at 7.
  expect(row(stored, 16 + 3)).to.deep.equal(row(given, 16 + 6));
  expect(row(stored, 16 + 8 + 3)).to.deep.equal(row(given, 16 + 7));
  expect(row(stored, 6 * 16 + 3)).to.deep.equal(row(given, 6 * 16 + 3));
});

describe("rows of a matrix of 4 bits", () => {
  it("are its bytes and scales from there on", () => {
    const matrix = weights.layers[0]!.down;
    const { rows, stored, scales } = rowsOf(matrix, 3, 2);
    expect(rows).to.equal(2);
    expect(stored).to.deep.equal(matrix.stored.slice(3 * 48, 5 * 48));
    expect(scales).to.deep.equal(matrix.scales.slice(3 * 3, 5 * 3));
  });

  it("go into another order with their scales", () => {
    const matrix = weights.layers[0]!.down;
    const result = reordered(matrix, [5, 0]);
    for (const [to, from] of [5, 0].entries())
      expect(rowsOf(result, to, 1)).to.deep.equal(rowsOf(matrix, from, 1));
  });
});
