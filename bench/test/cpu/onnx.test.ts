// Tags: once, pure
import { expect } from "chai";
import { encodeModel } from "#src/cpu/onnx.js";
import { outputName } from "#src/cpu/onnx-draft.js";
import { onnxForms } from "#src/cpu/onnx-models.js";
import { problemOf } from "#src/cpu/problem.js";
import { peerRows } from "#src/cpu/rows.js";
import { PeriodicData } from "#src/data.js";

/** One field of a message, as it lies there: a number, or the bytes of a string or of another message. */
type Field = { readonly field: number; readonly value: bigint | Uint8Array };

/** Reads a message by the wire format alone, and throws where it is none. */
function decode(bytes: Uint8Array): Field[] {
  let at = 0;
  const next = (count: number): Uint8Array => {
    if (at + count > bytes.length) throw new Error("the message ends too early");
    at += count;
    return bytes.subarray(at - count, at);
  };
  const integer = (): bigint => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = next(1)[0]!;
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  const fields: Field[] = [];
  while (at < bytes.length) {
    const tag = Number(integer());
    const field = tag >> 3;
    if ((tag & 7) === 0) fields.push({ field, value: integer() });
    else if ((tag & 7) === 2) fields.push({ field, value: next(Number(integer())) });
    else if ((tag & 7) === 5) fields.push({ field, value: next(4) });
    else throw new Error(`wire type ${tag & 7}`);
  }
  return fields;
}

const all = (bytes: Uint8Array, field: number) =>
  decode(bytes)
    .filter((one) => one.field === field)
    .map(({ value }) => value);
const messages = (bytes: Uint8Array, field: number) => all(bytes, field) as Uint8Array[];
const message = (bytes: Uint8Array, field: number) => messages(bytes, field)[0]!;
const texts = (bytes: Uint8Array, field: number) =>
  messages(bytes, field).map((value) => new TextDecoder().decode(value));
const signed = (bytes: Uint8Array, field: number) =>
  all(bytes, field).map((value) => BigInt.asIntN(64, value as bigint));

/** Name, shape and number of the element type of a value. */
function value(bytes: Uint8Array): [string, readonly bigint[], bigint] {
  const tensor = message(message(bytes, 2), 1);
  const shape = messages(message(tensor, 2), 1).map((dimension) => all(dimension, 1)[0] as bigint);
  return [texts(bytes, 1)[0]!, shape, all(tensor, 1)[0] as bigint];
}

describe("ONNX models", () => {
  it("hold nodes, attributes, tensors and shapes where onnx.proto puts them", () => {
    const weights = Float32Array.of(1.5, -2, 0.25, 3e38, 0, -0);
    const model = encodeModel({
      nodes: [
        {
          op: "Conv",
          inputs: ["x", "", "w"],
          output: "y",
          attributes: { group: 300, pads: [1, 0, 2], axis: -1, alpha: { float: 0.5 } },
        },
      ],
      inputs: { x: [2, 1, 129] },
      outputs: { y: [] },
      initializers: {
        w: { shape: [2, 3], data: weights.subarray(0) },
        axes: { shape: [1], data: BigInt64Array.of(-2n) },
      },
    });
    expect(all(model, 1)).to.deep.equal([10n]);
    expect(all(message(model, 8), 2)).to.deep.equal([23n]);

    const graph = message(model, 7);
    expect(texts(graph, 2)).to.deep.equal(["graph"]);
    expect(messages(graph, 11).map(value)).to.deep.equal([["x", [2n, 1n, 129n], 1n]]);
    expect(messages(graph, 12).map(value)).to.deep.equal([["y", [], 1n]]);

    const node = message(graph, 1);
    expect(texts(node, 1)).to.deep.equal(["x", "", "w"]);
    expect(texts(node, 2)).to.deep.equal(["y"]);
    expect(texts(node, 4)).to.deep.equal(["Conv"]);
    const attributes = messages(node, 5).map((one) => ({
      name: texts(one, 1)[0],
      type: all(one, 20)[0],
      float: messages(one, 2).map((bytes) => new Float32Array(bytes.slice().buffer)[0]),
      int: signed(one, 3),
      ints: signed(one, 8),
    }));
    expect(attributes).to.deep.equal([
      { name: "group", type: 2n, float: [], int: [300n], ints: [] },
      { name: "pads", type: 7n, float: [], int: [], ints: [1n, 0n, 2n] },
      { name: "axis", type: 2n, float: [], int: [-1n], ints: [] },
      { name: "alpha", type: 1n, float: [0.5], int: [], ints: [] },
    ]);

    const [w, axes] = messages(graph, 5);
    expect([all(w!, 1), all(w!, 2), texts(w!, 8)]).to.deep.equal([[2n, 3n], [1n], ["w"]]);
    expect(new Float32Array(message(w!, 9).slice().buffer)).to.deep.equal(weights);
    expect([all(axes!, 1), all(axes!, 2), texts(axes!, 8)]).to.deep.equal([[1n], [7n], ["axes"]]);
    expect(new BigInt64Array(message(axes!, 9).slice().buffer)).to.deep.equal(BigInt64Array.of(-2n));
  });

  it("hold element types, several outputs, texts and operators of others", () => {
    const model = encodeModel({
      nodes: [
        {
          ...{ op: "MatMulNBits", domain: "com.microsoft", inputs: ["x", "b"], output: ["y", "z"] },
          attributes: { reduction: "add" },
        },
      ],
      inputs: { x: [1], m: [2], i: [3] },
      outputs: { y: [4], z: [5] },
      types: { m: "bool", i: "int32", z: "int64" },
      initializers: { b: { shape: [2], data: Uint8Array.of(7, 255) } },
    });
    const [onnx, microsoft] = messages(model, 8);
    expect([texts(onnx!, 1), all(onnx!, 2)]).to.deep.equal([[], [23n]]);
    expect([texts(microsoft!, 1), all(microsoft!, 2)]).to.deep.equal([["com.microsoft"], [1n]]);
    const graph = message(model, 7);
    expect(messages(graph, 11).map((one) => value(one)[2])).to.deep.equal([1n, 9n, 6n]);
    expect(messages(graph, 12).map((one) => value(one)[2])).to.deep.equal([1n, 7n]);
    const b = message(graph, 5);
    expect([all(b, 2), message(b, 9)]).to.deep.equal([[2n], Uint8Array.of(7, 255)]);
    const node = message(graph, 1);
    expect([texts(node, 2), texts(node, 7)]).to.deep.equal([["y", "z"], ["com.microsoft"]]);
    const attribute = message(node, 5);
    expect([texts(attribute, 1), texts(attribute, 4), all(attribute, 20)]).to.deep.equal([
      ["reduction"],
      ["add"],
      [3n],
    ]);
  });

  it("take the part of an array that a view shows", () => {
    const data = Float32Array.of(1, 2, 3).subarray(1, 2);
    const graph = { nodes: [], inputs: {}, outputs: {}, initializers: { w: { shape: [1], data } } };
    const stored = message(message(message(encodeModel(graph), 7), 5), 9);
    expect(new Float32Array(stored.slice().buffer)).to.deep.equal(Float32Array.of(2));
  });

  it("have no fractions for integers", () => {
    const graph = { nodes: [], inputs: { x: [1.5] }, outputs: {} };
    expect(() => encodeModel(graph)).to.throw(RangeError, "onnx: 1.5 is no integer");
  });

  const gradients = /^(softmax|normalize|pool2d|conv2dFilter|attention)Gradient /;
  const channelsLast = ({ test }: (typeof peerRows)[number]) => test.problem.layout === "NHWC";
  const has = (row: (typeof peerRows)[number]) => !gradients.test(row.test.name) && !channelsLast(row);

  it("exist for no gradient but that by the input of a convolution", () => {
    for (const { test } of peerRows.filter((row) => gradients.test(row.test.name)))
      expect(() => onnxForms(problemOf(test), {}), test.name).to.throw("no such gradient");
  });

  it("exist for no images with channels last", () => {
    const rows = peerRows.filter(channelsLast);
    expect(rows).to.have.length(4);
    for (const { test } of rows)
      expect(() => onnxForms(problemOf(test), {}), test.name).to.throw("no channels last");
  });

  it("have f16 in place of f32 everywhere, but for whole numbers and truth values", () => {
    const { test } = peerRows.find((row) => row.test.name.startsWith("normalize f16"))!;
    const data = Object.fromEntries(
      Object.keys(test.inputs).map((name, i) => [name, new PeriodicData("f16", i + 1)]),
    );
    const [form] = onnxForms(problemOf(test), data);
    expect(form!.types).to.deep.equal({ input: "float16", [outputName]: "float16" });
    const graph = message(form!.model, 7);
    expect(messages(graph, 11).map((one) => value(one)[2])).to.deep.equal([10n]);
    const weight = messages(graph, 5).find((one) => texts(one, 8)[0] === "weight")!;
    expect(all(weight, 2)).to.deep.equal([10n]);
    const stored = new Uint16Array(message(weight, 9).slice().buffer);
    expect(stored).to.deep.equal(data.weight!.stored.slice(0, stored.length));
  });

  for (const { test } of peerRows.filter(has))
    it(`exist for ${test.name}: what they read is given or part of them`, () => {
      const data = Object.fromEntries(
        Object.keys(test.inputs).map((name, i) => [name, new PeriodicData("f32", i + 1)]),
      );
      const forms = onnxForms(problemOf(test), data);
      expect(forms).not.to.have.length(0);
      for (const { model, inputs, outputs } of forms) {
        const output = outputs[outputName]!;
        const product = (shape: readonly number[]) => shape.reduce((a, b) => a * b, 1);
        for (const [name, shape] of Object.entries(inputs))
          expect(product(shape)).to.equal(test.inputs[name]);
        expect(product(output)).to.equal(test.output.elements);

        const graph = message(model, 7);
        // Without a name: left out.
        const known = new Set([
          "",
          ...messages(graph, 11).map((one) => value(one)[0]),
          ...messages(graph, 5).map((one) => texts(one, 8)[0]!),
        ]);
        for (const node of messages(graph, 1)) {
          expect([...known]).to.include.members(texts(node, 1));
          for (const name of texts(node, 2)) known.add(name);
        }
        const [[result, shape]] = messages(graph, 12).map(value) as [ReturnType<typeof value>];
        expect([...known]).to.include(result);
        expect(shape.map(Number)).to.deep.equal(output);
        // Every input of the case is used one way or the other.
        expect([...known]).to.include.members(Object.keys(test.inputs));
      }
    });
});
