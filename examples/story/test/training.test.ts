import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type ComputeBackend, download, upload } from "@backplane/core";
import { disposeParameters, parametersOf, type Tensor, tensor, valueAndGrad } from "@backplane/tensor";
import { save } from "@backplane/tensor/node";
import { expect } from "chai";
import { ADAPTER_KEY, AdaptableWeights, readAdapter } from "#src/adapter.js";
import { FileSource } from "#src/checkpoint/disk.js";
import { FileError, MemorySource } from "#src/checkpoint/file.js";
import { readCheckpoint } from "#src/checkpoint/formats.js";
import { loadWeights } from "#src/checkpoint/load.js";
import { SHAPE_KEY } from "#src/checkpoint/trained.js";
import { Transformer } from "#src/model.js";
import { parseOptions } from "#src/options.js";
import { Random } from "#src/random.js";
import type { Shape } from "#src/shape.js";
import { bigramLoss } from "#src/training/bigram.js";
import { splitCorpus } from "#src/training/corpus.js";
import { LanguageModel } from "#src/training/language-model.js";
import { LoraParameters } from "#src/training/lora.js";
import { trainAdapter } from "#src/training/lora-program.js";
import { movedParameters, type Parameters, parametersFrom, weightsOf } from "#src/training/parameters.js";
import { SavedTraining, saveTraining } from "#src/training/saving.js";
import { Trainer } from "#src/training/trainer.js";
import type { Weights } from "#src/weights.js";
import { exactLogits } from "./exact.js";
import { registry } from "./subjects.js";
import { ggufFile, safetensorsFile, type Values, values, shape as wide } from "./tiny.js";

/** Each token sees fewer tokens than there are. */
const shape: Shape = { ...wide, window: 4 };

const texts = [
  [1, 270, 3, 299, 0, 77, 128],
  [41, 41, 8, 250, 99, 1, 2],
];
/** All but the last token of each text, of which each is followed by the next. */
const length = texts[0]!.length - 1;
const options = { seed: 3, steps: 6, batch: 2, length, rate: 0.01 };
const text = Int32Array.from({ length: 200 }, (_, i) => (i * i + 7 * i) % 50);

/** Where the values of a parameter are in `Values`: one after the other. */
function partsOf(name: string): Float64Array[] {
  if (name === "embedding") return [values.embedding];
  if (name === "finalNorm") return [values.finalNorm];
  const [, index, part] = name.split(".") as [string, string, string];
  const layer = values.layers[Number(index)]!;
  if (part === "queryKeyValue") return [layer.query, layer.key, layer.value];
  return part === "gateUp" ? [layer.gate, layer.up] : [layer[part as keyof typeof layer]];
}

function tinyParameters(backend: ComputeBackend): Parameters {
  return parametersFrom(shape, (name, extents) =>
    tensor(backend, Float32Array.from(partsOf(name).flatMap((part) => [...part])), { shape: extents }).keep(),
  );
}

/** The loss in double precision. */
function exactLoss(weights: Values): number {
  let sum = 0;
  for (const tokens of texts) {
    const logits = exactLogits(shape, weights, tokens.slice(0, length));
    for (const [i, row] of logits.entries()) {
      const largest = Math.max(...row);
      const total = row.reduce((total, logit) => total + Math.exp(logit - largest), 0);
      sum += Math.log(total) + largest - row[tokens[i + 1]!]!;
    }
  }
  return sum / (texts.length * length);
}

const inputsOf = (backend: ComputeBackend) =>
  [0, 1].map((offset) =>
    tensor(backend, Int32Array.from(texts.flatMap((tokens) => tokens.slice(offset, offset + length))), {
      shape: [texts.length, length],
    }),
  ) as [Tensor, Tensor];

describe("training", () => {
  // One for each test, so that none counts memory of another that the garbage collector frees meanwhile.
  let backend: ComputeBackend;
  let parameters: Parameters;
  let folder: string;
  before(() => {
    folder = mkdtempSync(join(tmpdir(), "backplane-story-"));
  });
  after(() => {
    rmSync(folder, { recursive: true });
  });
  beforeEach(async () => {
    backend = registry.create("cpu");
    await backend.init();
    parameters = tinyParameters(backend);
  });
  afterEach(async () => {
    disposeParameters(parameters);
    await backend.dispose();
  });

  it("has the loss and the gradients of the formulas in double precision", async () => {
    using model = new LanguageModel(backend, shape, length);
    const all = [...parametersOf(parameters)];
    const step = valueAndGrad((tokens: Tensor, targets: Tensor) => model.loss(parameters, tokens, targets), {
      at: all.map(([, parameter]) => parameter),
    });
    const { value, gradients } = step(...inputsOf(backend));
    expect(await value.item()).to.be.closeTo(exactLoss(values), 1e-5);
    const random = new Random(5);
    for (const [i, [name]] of all.entries()) {
      const gradient = await gradients[i]!.data();
      const scale = Math.max(...gradient.map(Math.abs));
      expect(scale, name).to.be.greaterThan(0);
      const parts = partsOf(name);
      let before = 0;
      for (const part of parts) {
        // The embedding is used by two ends of the model: a token that is in the texts has both.
        const at = name === "embedding" ? 77 * shape.size + 5 : Math.floor(random.uniform() * part.length);
        const original = part[at]!;
        const losses = [1, -1].map((sign) => {
          part[at] = original + sign * 1e-4;
          return exactLoss(values);
        }) as [number, number];
        part[at] = original;
        const slope = (losses[0] - losses[1]) / 2e-4;
        expect(Math.abs(gradient[before + at]! - slope), name).to.be.lessThan(1e-4 * scale);
        before += part.length;
      }
    }
  });

  it("takes the same steps for the same seed, also if it is interrupted", async () => {
    const losses = async (trainer: Trainer, until: number) => {
      const found: number[] = [];
      while (trainer.optimizer.steps < until) {
        using loss = trainer.step(text);
        found.push(await loss.item());
      }
      return found;
    };
    using trainer = new Trainer(backend, shape, parameters, [...parametersOf(parameters).values()], options);
    const all = await losses(trainer, 6);
    expect(all[5]).to.be.lessThan(0.8 * all[0]!);

    const again = tinyParameters(backend);
    using interrupted = new Trainer(backend, shape, again, [...parametersOf(again).values()], options);
    expect(await losses(interrupted, 3)).to.deep.equal(all.slice(0, 3));
    const path = join(folder, "half.safetensors");
    const metadata = { [SHAPE_KEY]: JSON.stringify(shape) };
    await saveTraining(path, parametersOf(again), metadata, interrupted);
    using saved = await SavedTraining.read(backend, path);
    expect(saved.options).to.deep.equal(options);
    const taken = parametersFrom(shape, saved.take);
    using resumed = new Trainer(backend, shape, taken, [...parametersOf(taken).values()], saved.options);
    saved.restore(resumed);
    expect(await losses(resumed, 6)).to.deep.equal(all.slice(3));
    expect(await resumed.heldOutLoss(text)).to.equal(await trainer.heldOutLoss(text));

    // It is a model file, too.
    await using file = await FileSource.open(path);
    const checkpoint = await readCheckpoint(file);
    expect(checkpoint.shape).to.deep.equal(shape);
    const { weights, scope } = await loadWeights(backend, file, checkpoint, "f32");
    const [first, second] = await Promise.all(
      [weights, weightsOf(backend, again)].map(async (used) => {
        const transformer = new Transformer(backend, shape, used, 1);
        using token = tensor(backend, Int32Array.of(77));
        transformer.forward(token.value.storage!.handle, 1, 0);
        const logits = await download(backend, transformer.logits, Float32Array, shape.vocabulary);
        transformer.free();
        return logits;
      }),
    );
    expect(first).to.deep.equal(second);
    scope.dispose();
  });

  it("leaves the model as it is until an adapter has learned something, and then adds that", async () => {
    const lora = new LoraParameters(backend, shape, { rank: 3, scale: 0.5 }, new Random(1));
    using model = new LanguageModel(backend, shape, length);
    const [tokens] = inputsOf(backend);
    const base = await model.logits(parameters, tokens).data();
    expect(await model.logits(parameters, tokens, lora.adaptation).data()).to.deep.equal(base);

    const trained = [...lora.tensors.values()];
    using trainer = new Trainer(backend, shape, parameters, trained, options, lora.adaptation);
    while (trainer.optimizer.steps < 4) trainer.step(text).dispose();
    const adapted = await model.logits(parameters, tokens, lora.adaptation).data();
    expect(adapted).not.to.deep.equal(base);
    expect(await model.logits(parameters, tokens).data()).to.deep.equal(base);

    const path = join(folder, "adapter.safetensors");
    await saveTraining(path, lora.tensors, lora.metadata, trainer);
    await using file = await FileSource.open(path);
    const plain = weightsOf(backend, parameters);
    const weights = new AdaptableWeights(backend, plain);
    const adapter = await readAdapter(backend, file, plain);
    const transformer = new Transformer(backend, shape, weights, length);
    const given = upload(backend, Int32Array.from(texts[0]!));
    // Together, one by one, and without the adapter.
    for (const [used, wanted, start] of [
      [adapter, adapted, 0],
      [undefined, base, 0],
      [adapter, adapted, length - 1],
    ] as const) {
      weights.adapter = used;
      if (start > 0) transformer.forward(given, start, 0);
      transformer.forward({ handle: given, byteOffset: 4 * start }, length - start, start);
      const found = await download(backend, transformer.logits, Float32Array, shape.vocabulary);
      const last = wanted.subarray((length - 1) * shape.vocabulary, length * shape.vocabulary);
      const difference = Math.max(...found.map((logit, i) => Math.abs(logit - last[i]!)));
      expect(difference / Math.max(...last.map(Math.abs))).to.be.lessThan(2e-5);
    }
    backend.free(given);
    transformer.free();
    adapter.free();
    lora.dispose();
  });

  for (const [type, tolerance] of [
    ["F32", 0],
    ["Q8_0", 2e-5],
  ] as const)
    it(`has the weights of a model of ${type} once, as they were`, async () => {
      const source = new MemorySource(ggufFile(type));
      const checkpoint = await readCheckpoint(source);
      const before = backend.memory();
      const loaded = await loadWeights(backend, source, checkpoint, "f32");
      const logitsOf = async (weights: Weights) => {
        const transformer = new Transformer(backend, checkpoint.shape, weights, 1);
        using token = tensor(backend, Int32Array.of(77));
        transformer.forward(token.value.storage!.handle, 1, 0);
        const logits = await download(backend, transformer.logits, Float32Array, shape.vocabulary);
        transformer.free();
        return logits;
      };
      const wanted = await logitsOf(loaded.weights);
      const moved = movedParameters(backend, checkpoint.shape, loaded);
      const tensors = [...parametersOf(moved).values()];
      expect(backend.memory()).to.include({
        liveAllocations: before.liveAllocations + tensors.length,
        liveBytes: before.liveBytes + 4 * tensors.reduce((sum, { size }) => sum + size, 0),
      });
      const found = await logitsOf(weightsOf(backend, moved));
      const largest = Math.max(...wanted.map(Math.abs));
      for (const [i, logit] of found.entries()) expect(logit).to.be.closeTo(wanted[i]!, tolerance * largest);
      disposeParameters(moved);
      expect(backend.memory()).to.include({ liveAllocations: before.liveAllocations });
    });

  it("goes on with an adapter as if it had never been interrupted", async () => {
    const write = (name: string, bytes: Uint8Array) => {
      writeFileSync(join(folder, name), bytes);
      return join(folder, name);
    };
    const model = write("tiny.gguf", ggufFile("F32"));
    const lines = write("lines.md", new TextEncoder().encode("the sea and the sun\n".repeat(100)));
    const base = ["--model", model, "--text", lines, "--tokens", "1"];
    const begin = ["--lora", "2", "--steps", "12", "--seed", "4"];
    /** Trains with these options too, and returns the notes and the file. */
    const train = async (name: string, interrupts: boolean, ...more: string[]) => {
      const save = join(folder, name);
      const interruption = new AbortController();
      let noted = "";
      const notes = {
        write(text: string) {
          noted += text;
          if (interrupts && noted.includes("parameters of an adapter learn from")) interruption.abort();
        },
      };
      const outputs = { text: { write() {} }, notes };
      const parsed = parseOptions([...base, ...more, "--save", save]);
      await trainAdapter({ ...parsed, model }, "cpu", outputs, interruption.signal);
      return { noted, save };
    };
    const half = await train("half-adapter.safetensors", true, ...begin);
    expect(half.noted).to.contain(
      `Saved as ${half.save}.\nTo go on: npx -y pnpm@12 story --model ${model} --text ${lines} --resume ${half.save} --save ${half.save}\n`,
    );
    const resumed = await train("resumed.safetensors", false, "--resume", half.save);
    expect(resumed.noted).to.match(/nats per token: [\d.]+; without the adapter: [\d.]+/);
    const whole = await train("whole.safetensors", false, ...begin);
    expect(readFileSync(resumed.save).equals(readFileSync(whole.save))).to.equal(true);
    expect(readFileSync(half.save).equals(readFileSync(whole.save))).to.equal(false);

    for (const [more, message] of [
      [
        ["--lora", "3", "--resume", half.save],
        /half-adapter\.safetensors: It has an adapter of rank 2, and --lora is 3/,
      ],
      [["--resume", model], /tiny\.gguf: /],
    ] as const) {
      const failed = await train("none", false, ...more).catch((error: unknown) => error);
      expect(failed).to.be.instanceOf(FileError);
      expect((failed as FileError).message).to.match(message);
    }
  });

  it("refuses a training whose file is broken, and keeps nothing of it", async () => {
    const path = join(folder, "broken.safetensors");
    const { liveAllocations } = backend.memory();
    for (const [training, steps, message] of [
      [undefined, "3", "It does not say how it was trained."],
      ["{", "3", /^Its header is not JSON: /],
      [JSON.stringify({ ...options, rate: null }), "3", "Its header makes no sense: rate is null."],
      [JSON.stringify({ ...options, batch: 0 }), "3", "Its header makes no sense: batch is 0."],
      [JSON.stringify(options), undefined, 'It has done "" steps of 6.'],
      [JSON.stringify(options), "7", 'It has done "7" steps of 6.'],
    ] as const) {
      using some = tensor(backend, [1]);
      const metadata = {
        ...(training === undefined ? {} : { training }),
        ...(steps === undefined ? {} : { steps }),
      };
      await save(path, new Map([["some", some]]), { metadata });
      const error = await SavedTraining.read(backend, path).catch((error: unknown) => error);
      expect(error).to.be.instanceOf(FileError);
      if (typeof message === "string") expect((error as FileError).message).to.equal(message);
      else expect((error as FileError).message).to.match(message);
    }
    expect(backend.memory()).to.include({ liveAllocations });

    const plain = weightsOf(backend, parameters);
    for (const [sizes, message] of [
      ["{", /^Its header is not JSON: /],
      ['{"rank":"2","scale":1}', /: rank is "2"\.$/],
      ['{"rank":2}', /: scale is undefined\.$/],
      ['{"rank":2,"scale":1}', /^It has no array layers\.0\.queryKeyValue\.down\.$/],
    ] as const) {
      const file = new MemorySource(safetensorsFile({ __metadata__: { [ADAPTER_KEY]: sizes } }));
      const error = await readAdapter(backend, file, plain).catch((error: unknown) => error);
      expect(error).to.be.instanceOf(FileError);
      expect((error as FileError).message).to.match(message);
    }
    expect(backend.memory()).to.include({ liveAllocations });
  });

  it("holds out every tenth piece of a text, and knows what pairs of bytes alone tell of it", () => {
    const corpus = splitCorpus(Int32Array.from({ length: 100_000 }, (_, i) => i));
    expect(corpus.heldOut).to.have.length(2 * 4096);
    expect([corpus.heldOut[0], corpus.heldOut[4096]]).to.deep.equal([9 * 4096, 19 * 4096]);
    expect(corpus.training).to.have.length(100_000 - 2 * 4096);
    // What follows is certain, but for the prior: (1000 + p) / (1000 + 256 p) with p = 0.05.
    const certain = Int32Array.from({ length: 2001 }, (_, i) => i % 2);
    expect(bigramLoss({ training: certain, heldOut: certain })).to.be.closeTo(
      -Math.log(1000.05 / 1012.8),
      1e-9,
    );
  });
});
