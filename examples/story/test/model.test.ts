// Tags: kernels, pure, long
import { type ComputeBackend, download, type FloatType, SwitchableBackend, upload } from "@backplane/core";
import { expect } from "chai";
import type { StoredType } from "#src/checkpoint/checkpoint.js";
import { MemorySource } from "#src/checkpoint/file.js";
import { readCheckpoint } from "#src/checkpoint/formats.js";
import { type LoadOptions, loadWeights } from "#src/checkpoint/load.js";
import { Transformer } from "#src/model.js";
import { Sampler } from "#src/sampler.js";
import { ropeFrequencies } from "#src/shape.js";
import { Writer } from "#src/writer.js";
import { exactLogits } from "./exact.js";
import { collected, registry } from "./subjects.js";
import { ggufFile, llama2cFile, roundedValues, shape, values, valuesOf } from "./tiny.js";

/** Its rows are whole blocks of Q6_K; words and places are those of the tiny model. */
const wide = (() => {
  const sizes = { size: 256, hidden: 256, layers: 1, heads: 4, kvHeads: 2, headSize: 64 };
  const wideShape = { ...shape, ...sizes, frequencies: ropeFrequencies(64, 10_000) };
  return { shape: wideShape, values: valuesOf(wideShape) };
})();

const tokens = [1, 270, 3, 299, 0, 77, 128, 41];
/** The first ones go through the model together, the others one by one. */
const together = 5;

/** Runs a body with a model from a file on a backend, and checks that nothing is left of it. */
async function withModel(
  backend: ComputeBackend,
  file: Uint8Array,
  dtype: FloatType,
  body: (transformer: Transformer) => Promise<void>,
  options: LoadOptions = {},
): Promise<void> {
  const source = new MemorySource(file);
  const checkpoint = await readCheckpoint(source);
  const { weights, scope } = await loadWeights(backend, source, checkpoint, dtype, options);
  const transformer = new Transformer(backend, checkpoint.shape, weights, shape.length, dtype);
  await body(transformer);
  transformer.free();
  scope.dispose();
  expect(backend.memory().liveAllocations).to.equal(0);
}

const backends = new Map(registry.names.map((name) => [name, registry.create(name)]));

/** The largest difference of logits from exact ones, in parts of the largest. */
async function difference(
  name: string,
  file: Uint8Array,
  exact: Float64Array[],
  dtype: FloatType,
  options: LoadOptions = {},
) {
  const backend = backends.get(name)!;
  let largest = 0;
  const compare = async (transformer: Transformer) => {
    const given = upload(backend, Int32Array.from(tokens));
    for (let end = together; end <= tokens.length; end++) {
      const start = end === together ? 0 : end - 1;
      transformer.forward({ handle: given, byteOffset: 4 * start }, end - start, start);
      const logits = await download(backend, transformer.logits, Float32Array, shape.vocabulary);
      const right = exact[end - 1]!;
      const scale = Math.max(...right.map(Math.abs));
      for (const [i, logit] of logits.entries())
        largest = Math.max(largest, Math.abs(logit - right[i]!) / scale);
    }
    backend.free(given);
  };
  await withModel(backend, file, dtype, compare, options);
  return largest;
}

/** Bits of a weight are the same on all backends; kernels for them are tested by the suite of the layer. */
const formats: Readonly<Record<string, readonly StoredType[]>> = {
  cpu: ["F32", "F16", "BF16", "Q8_0", "Q4_0"],
  webgpu: ["Q8_0", "Q4_0"],
};

describe("the transformer", () => {
  const exact = exactLogits(shape, values, tokens);
  before(async () => {
    for (const backend of backends.values()) await backend.init();
  });
  after(async () => {
    for (const backend of backends.values()) await backend.dispose();
  });

  for (const name of registry.names) {
    it(`gives the logits of a checkpoint of llama2.c, on ${name}`, async () => {
      expect(await difference(name, llama2cFile(), exact, "f32")).to.be.lessThan(2e-5);
    });

    for (const type of formats[name]!)
      it(`gives the logits of a GGUF file of ${type}, on ${name}`, async () => {
        const rounded = exactLogits(shape, roundedValues(type), tokens);
        expect(await difference(name, ggufFile(type), rounded, "f32")).to.be.lessThan(2e-5);
      });
  }

  it("takes weights of 6 bits as they are in a file, for a classifier beside others and for all", async () => {
    for (const [type, classifier] of [
      ["Q4_0", "Q6_K"],
      ["Q6_K", undefined],
    ] as const) {
      const file = ggufFile(type, { model: wide, ...(classifier === undefined ? {} : { classifier }) });
      const right = exactLogits(wide.shape, roundedValues(type, wide.values, classifier), tokens);
      expect(await difference("cpu", file, right, "f32")).to.be.lessThan(2e-5);
      expect(await difference("cpu", file, right, "f16")).to.be.within(1e-5, 0.02);
    }
  });

  it("computes in f16 if asked to", async () => {
    // Some ten roundings to 11 bits in each of two layers.
    expect(await difference("cpu", ggufFile("F32"), exact, "f16")).to.be.within(1e-5, 0.02);
    const rounded = exactLogits(shape, roundedValues("Q8_0"), tokens);
    expect(await difference("cpu", ggufFile("Q8_0"), rounded, "f16")).to.be.lessThan(0.02);
  });

  it("has rounded inputs of weights of 4 and 8 bits on the CPU, if they may be rounded", async () => {
    for (const type of ["Q8_0", "Q4_0"] as const) {
      const right = exactLogits(shape, roundedValues(type), tokens);
      const options = { mayRoundInputs: true };
      // 2^-15 of the largest number of a block in each product; without that it is below 1e-6.
      expect(await difference("cpu", ggufFile(type), right, "f32", options)).to.be.within(2e-5, 1e-3);
    }
  });

  it("writes the same across swaps, and no more than there is room for", async () => {
    const texts: number[][] = [];
    for (const [interval, limit] of [
      [Number.POSITIVE_INFINITY, 1000],
      [7, 16],
    ] as const) {
      await using backend = new SwitchableBackend(registry, "cpu");
      await backend.init();
      await withModel(backend, llama2cFile(), "f32", async (transformer) => {
        const sampler = new Sampler(backend, shape.vocabulary, { temperature: 0, topP: 1, seed: 1 });
        const writer = new Writer(backend, transformer, sampler);
        const written: number[] = [];
        for await (const token of writer.write(tokens, limit, new Set())) {
          written.push(token);
          if (written.length % interval === 0)
            await backend.use(backend.current === "cpu" ? "webgpu" : "cpu");
        }
        texts.push(written);
        expect(() => transformer.forward(transformer.logits, 1, shape.length)).to.throw(RangeError, /room/);
        writer.free();
        sampler.free();
      });
    }
    // The last token follows the one in the last place.
    expect(texts[0]).to.have.length(shape.length - tokens.length + 1);
    expect(texts[1]).to.deep.equal(texts[0]!.slice(0, 16));
    expect(texts[0]![0]).to.equal(exact.at(-1)!.indexOf(Math.max(...exact.at(-1)!)));
  });

  it("stops at a token that ends a text", async () => {
    const backend = backends.get("cpu")!;
    await withModel(backend, llama2cFile(), "f32", async (transformer) => {
      const sampler = new Sampler(backend, shape.vocabulary, { temperature: 0, topP: 1, seed: 1 });
      const writer = new Writer(backend, transformer, sampler);
      const all = await collected(writer.write(tokens, 6, new Set()));
      const upTo = await collected(writer.write(tokens, 6, new Set([all[3]!])));
      expect(upTo).to.deep.equal(all.slice(0, all.indexOf(all[3]!)));
      writer.free();
      sampler.free();
    });
  });
});
