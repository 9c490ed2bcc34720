import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type ComputeBackend, SwitchableBackend } from "@backplane/core";
import { expect } from "chai";
import { FileSource } from "#src/checkpoint/disk.js";
import { readCheckpoint } from "#src/checkpoint/formats.js";
import { loadWeights } from "#src/checkpoint/load.js";
import { Transformer } from "#src/model.js";
import { Sampler, type SamplerOptions } from "#src/sampler.js";
import { readLlama2cTokenizer } from "#src/tokenizer/llama2c.js";
import { TextJoiner } from "#src/tokenizer/tokenizer.js";
import { Writer } from "#src/writer.js";
import { collected, registry } from "./subjects.js";

/** A folder with stories260K.bin of karpathy/tinyllamas, tok512.bin, and what they should give. */
const VARIABLE = "BACKPLANE_STORY_DATA";
const folder = process.env[VARIABLE];
const largestDifference = 2e-5;

interface Expected {
  readonly tokens: readonly number[];
  readonly text: string;
  readonly logits: readonly (readonly number[])[];
  /** After each layer, at some positions. */
  readonly residual: readonly { readonly pos: number; readonly afterLayer: readonly (readonly number[])[] }[];
}

const json = (name: string) => JSON.parse(readFileSync(join(folder!, name), "utf8"));

async function withStories(
  backend: ComputeBackend,
  options: Partial<SamplerOptions>,
  body: (writer: Writer, transformer: Transformer) => Promise<void>,
): Promise<void> {
  await backend.init();
  await using file = await FileSource.open(join(folder!, "stories260K.bin"));
  const checkpoint = await readCheckpoint(file);
  const { weights } = await loadWeights(backend, file, checkpoint, "f32");
  const transformer = new Transformer(backend, checkpoint.shape, weights, 256);
  const { vocabulary } = checkpoint.shape;
  const sampler = new Sampler(backend, vocabulary, { temperature: 0, topP: 1, seed: 1, ...options });
  try {
    await body(new Writer(backend, transformer, sampler), transformer);
  } finally {
    await backend.dispose();
  }
}

const tokenizer = () => readLlama2cTokenizer(readFileSync(join(folder!, "tok512.bin")), 512);

function relative(found: Float32Array, wanted: readonly number[]): number {
  const scale = Math.max(...wanted.map(Math.abs));
  return Math.max(...wanted.map((value, i) => Math.abs(found[i]! - value))) / scale;
}

// Without the folder the tests are listed as pending, each by its name.
const described = folder === undefined ? describe.skip : describe;

described(`stories260K, from the folder that ${VARIABLE} names`, () => {
  for (const name of registry.names) {
    it(`writes the known story on ${name}`, async () => {
      const { tokens, text } = json("bos.json") as Expected;
      await withStories(registry.create(name), {}, async (writer) => {
        const written = await collected(writer.write([1], 200, new Set([1, 2])));
        expect(written).to.deep.equal(tokens.slice(1));
        const joiner = new TextJoiner(tokenizer(), true);
        expect(written.map((token) => joiner.add(token)).join("")).to.equal(text);
      });
    });

    it(`computes the known logits and streams on ${name}`, async () => {
      const { tokens, logits, residual } = json("bos.json") as Expected;
      const backend = registry.create(name);
      await withStories(backend, {}, async (_, transformer) => {
        const given = backend.alloc(4 * tokens.length);
        backend.copyHtoD(given, Int32Array.from(tokens));
        for (const [position, wanted] of logits.entries()) {
          const streams: Promise<Float32Array>[] = [];
          transformer.forward({ handle: given, byteOffset: 4 * position }, 1, position, (_layer, stream) => {
            const values = new Float32Array(transformer.shape.size);
            streams.push(backend.copyDtoH(values, stream).then(() => values));
          });
          const found = new Float32Array(wanted.length);
          await backend.copyDtoH(found, transformer.logits);
          expect(relative(found, wanted)).to.be.lessThan(largestDifference);
          const { afterLayer = [] } = residual.find(({ pos }) => pos === position) ?? {};
          for (const [layer, stream] of (await Promise.all(streams)).entries())
            if (afterLayer[layer] !== undefined)
              expect(relative(stream, afterLayer[layer])).to.be.lessThan(largestDifference);
        }
      });
    });
  }

  it("writes the known story with another backend after every 7th token", async () => {
    const { tokens } = json("bos.json") as Expected;
    const backend = new SwitchableBackend(registry, "cpu");
    await withStories(backend, {}, async (writer) => {
      const written: number[] = [];
      for await (const token of writer.write([1], 200, new Set([1, 2]))) {
        written.push(token);
        if (written.length % 7 === 0) await backend.use(backend.current === "cpu" ? "webgpu" : "cpu");
      }
      expect(written).to.deep.equal(tokens.slice(1));
    });
  });

  it("writes the known story by chance", async () => {
    const { tokens, seed, temperature, topp } = json("sampled.json");
    await withStories(registry.create("cpu"), { seed, temperature, topP: topp }, async (writer) => {
      const written = await collected(writer.write([1], tokens.length - 1, new Set([1, 2])));
      expect(written).to.deep.equal(tokens.slice(1));
    });
  });

  it("goes on as well if the prompt was read in one pass", async () => {
    const { tokens } = json("bos.json") as Expected;
    for (const length of [2, 9, 40])
      await withStories(registry.create("cpu"), {}, async (writer) => {
        const written = await collected(writer.write(tokens.slice(0, length), 60, new Set([1, 2])));
        expect(written).to.deep.equal(tokens.slice(length, length + 60));
      });
  });

  it("encodes the known texts", () => {
    for (const { text, ids } of json("tokenizer.json")) expect(tokenizer().encode(text)).to.deep.equal(ids);
  });
});
