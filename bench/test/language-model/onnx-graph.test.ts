import { decodeFloat16 } from "@backplane/core";
import type { Shape } from "@backplane/example-story";
import { expect } from "chai";
import { microsoft } from "#src/cpu/onnx.js";
import {
  cacheNames,
  type StepOptions,
  stepGraph,
  stepInputs,
  stepOutputs,
} from "#src/language-model/onnx-graph.js";
import { randomWeights, reordered, rowsOf, widened } from "#src/language-model/weights.js";

const shape: Shape = {
  ...{ size: 64, hidden: 96, layers: 2, heads: 4, kvHeads: 2, headSize: 16, vocabulary: 50, length: 8 },
  ...{ epsilon: 1e-5, frequencies: [1, 0.5, 0.25, 0.125, 0.1, 0.05, 0.02, 0.01] },
};
const weights = randomWeights(shape, 4);
const options: StepOptions = {
  ...({ dtype: "f32", room: 8, fixedReach: false } as const),
  products: { op: "MatMulNBits", accuracyLevel: 0 },
};

describe("the step of a language model in ONNX", () => {
  for (const fixedReach of [false, true])
    it(`reads only what is there, and gives all outputs${fixedReach ? ", with a fixed reach" : ""}`, () => {
      const graph = stepGraph(shape, weights, { ...options, dtype: "f16", fixedReach });
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
    const { inputs, outputs, types } = stepGraph(shape, weights, options);
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
    const { nodes } = stepGraph(shape, weights, options);
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
  it("says to MatMulNBits how many bits there are, and which accuracy is enough", () => {
    const levels = [0, 4].map((accuracyLevel) => {
      const products = { op: "MatMulNBits", accuracyLevel } as const;
      const { nodes } = stepGraph(shape, randomWeights(shape, 8), { ...options, products });
      return nodes.find(({ op }) => op === "MatMulNBits")!.attributes!;
    });
    expect(levels.map(({ bits }) => bits)).to.deep.equal([8, 8]);
    expect(levels.map(({ accuracy_level }) => accuracy_level)).to.deep.equal([undefined, 4]);
  });

  it("has the same numbers column by column for MatMul", () => {
    const { nodes, initializers } = stepGraph(shape, weights, { ...options, products: { op: "MatMul" } });
    expect(nodes.filter(({ op }) => op === "MatMul")).to.have.length(11);
    const { shape: extents, data } = initializers!["1 down weights"]!;
    expect(extents).to.deep.equal([96, 64]);
    const numbers = widened(weights.layers[1]!.down);
    for (const [row, column] of [
      [0, 0],
      [5, 95],
      [63, 33],
    ] as const)
      expect(data[column * 64 + row]).to.equal(numbers[row * 96 + column]);
  });
});

it("has the pairs of queries and keys in halves, and values as they were", () => {
  const { initializers } = stepGraph(shape, weights, options);
  const stored = initializers!["0 query, key, value numbers"]!.data as Uint8Array;
  const row = (data: Uint8Array, index: number) => [...data.slice(index * 32, (index + 1) * 32)];
  const given = weights.layers[0]!.queryKeyValue.stored;
  // Row 16 + 3 is of the second head: pair 3 begins it in ours at 6, and ends it at 7.
  expect(row(stored, 16 + 3)).to.deep.equal(row(given, 16 + 6));
  expect(row(stored, 16 + 8 + 3)).to.deep.equal(row(given, 16 + 7));
  expect(row(stored, 6 * 16 + 3)).to.deep.equal(row(given, 6 * 16 + 3));
});

for (const bits of [4, 8] as const)
  describe(`rows of a matrix of ${bits} bits`, () => {
    const matrix = randomWeights(shape, bits).layers[0]!.down;

    it("are its bytes and scales from there on", () => {
      const rowBytes = (96 * bits) / 8;
      const { rows, stored, scales } = rowsOf(matrix, 3, 2);
      expect(rows).to.equal(2);
      expect(stored).to.deep.equal(matrix.stored.slice(3 * rowBytes, 5 * rowBytes));
      expect(scales).to.deep.equal(matrix.scales.slice(3 * 3, 5 * 3));
    });

    it("go into another order with their scales", () => {
      const result = reordered(matrix, [5, 0]);
      for (const [to, from] of [5, 0].entries())
        expect(rowsOf(result, to, 1)).to.deep.equal(rowsOf(matrix, from, 1));
    });

    it("are the stored numbers less the middle, times the scale of their block", () => {
      const numbers = widened(matrix);
      expect(numbers).to.have.length(64 * 96);
      const [scale, at] = [decodeFloat16(matrix.scales.slice(4, 5))[0]!, 4 * 32 + 7];
      const stored = bits === 8 ? matrix.stored[at]! : matrix.stored[at >> 1]! >> 4;
      expect(numbers[at]).to.equal(scale * (stored - 2 ** (bits - 1)));
    });
  });
