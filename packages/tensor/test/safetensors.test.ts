import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  Adam,
  decodeSafetensors,
  encodeSafetensors,
  Linear,
  loadParameters,
  parametersOf,
  Random,
  readSafetensors,
  scope,
  type Tensor,
  tensor,
  valueAndGrad,
} from "@backplane/tensor";
import { load, save } from "@backplane/tensor/node";
import { assert } from "chai";
import { onCpu, rejects, throws } from "./support.js";

const bench = onCpu();

function sample(): Map<string, Tensor> {
  const { backend } = bench;
  return new Map([
    [
      "weights",
      tensor(backend, [
        [1, 2, 3],
        [4, 5, 6],
      ]).transpose(),
    ],
    ["half", tensor(backend, [0.5, -2], { dtype: "f16" })],
    ["brain", tensor(backend, [0.5, -2], { dtype: "bf16" })],
    ["places", tensor(backend, Int32Array.of(-7, 2 ** 30))],
    ["bytes", tensor(backend, Uint8Array.of(1, 2, 255))],
    ["words", tensor(backend, Uint32Array.of(2 ** 32 - 1))],
    ["nothing", tensor(backend, [[], []])],
    ["number", tensor(backend, 3)],
    ["__proto__", tensor(backend, 4)],
  ]);
}

async function contents(tensors: ReadonlyMap<string, Tensor>): Promise<unknown[]> {
  return Promise.all(
    Array.from(tensors, async ([name, tensor]) => [name, tensor.dtype, tensor.shape, await tensor.toArray()]),
  );
}

describe("safetensors", () => {
  let folder = "";
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "backplane-tensor-"));
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  it("hold tensors of every type, with texts", async () => {
    const file = await encodeSafetensors(sample(), { metadata: { step: "12" } });
    const { tensors, metadata } = decodeSafetensors(bench.backend, file);
    assert.sameDeepMembers(await contents(tensors), await contents(sample()));
    assert.deepEqual([...metadata], [["step", "12"]]);
    // As others write and read them: the length, JSON, the bytes.
    const length = Number(new DataView(file.buffer).getBigUint64(0, true));
    const header = JSON.parse(new TextDecoder().decode(file.subarray(8, 8 + length)));
    assert.deepEqual(header.weights, { dtype: "F32", shape: [3, 2], data_offsets: [0, 24] });
    assert.deepEqual(
      new Float32Array(file.slice(8 + length, 8 + length + 24).buffer),
      Float32Array.of(1, 4, 2, 5, 3, 6),
    );
  });

  it("that are broken are refused with the reason", async () => {
    const file = await encodeSafetensors(new Map([["x", tensor(bench.backend, [1, 2])]]));
    const header = (text: string, data = 8): Uint8Array => {
      const bytes = new Uint8Array(8 + text.length + data);
      new DataView(bytes.buffer).setBigUint64(0, BigInt(text.length), true);
      bytes.set(new TextEncoder().encode(text), 8);
      return bytes;
    };
    const x = (fields: string): Uint8Array => header(`{"x":{${fields}}}`);
    for (const [bytes, message] of [
      [file.subarray(0, 5), /it has 5 bytes/],
      [file.subarray(0, 20), /its header is said to have \d+ bytes, of 20/],
      [file.subarray(0, file.length - 1), /its tensors have 8 bytes, and the file has 7/],
      [header("{]"), /its header is no JSON text/],
      [header("[]"), /its header is no JSON object/],
      [x('"dtype":"F32","shape":[3],"data_offsets":[0,8]'), /"x" has the offsets \[0, 8\], and 12 bytes/],
      [x('"dtype":"F32","shape":[-2],"data_offsets":[0,8]'), /"x" has the shape \[-2\]/],
      [
        x('"dtype":"F32","shape":[1],"data_offsets":[4,8]'),
        /"x" begins at byte 4; the tensors before it end at 0/,
      ],
      [x('"dtype":"F32","shape":[2],"data_offsets":[0]'), /"x" has the offsets \[0\]/],
      [header('{"__metadata__":{"a":1}}', 0), /the metadata "a" is no text/],
    ] as const)
      throws("INVALID_ARGUMENT", message, () => decodeSafetensors(bench.backend, bytes));
    throws("UNSUPPORTED", /"x" has 9 axes; allowed: at most 8/, () =>
      decodeSafetensors(bench.backend, x('"dtype":"F32","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,8]')),
    );
    throws("UNSUPPORTED", /"x" has the type "F64"; allowed: F32/, () =>
      decodeSafetensors(bench.backend, x('"dtype":"F64","shape":[1],"data_offsets":[0,8]')),
    );
    const path = join(folder, "broken");
    await writeFile(path, file.subarray(0, file.length - 1));
    const { liveAllocations } = bench.backend.memory();
    await rejects("INVALID_ARGUMENT", /the file is broken/, load(bench.backend, path));
    // A file that becomes shorter while it is read.
    const read = async (start: number, length: number): Promise<Uint8Array> =>
      file.subarray(start, Math.min(start + length, file.length - 1));
    await rejects(
      "INVALID_ARGUMENT",
      /it ends after 7 of 8 bytes from byte \d+ on/,
      readSafetensors(bench.backend, { bytes: file.length, read }),
    );
    assert.equal(bench.backend.memory().liveAllocations, liveAllocations);
  });

  it("are written to a file and read again, with progress", async () => {
    const path = join(folder, "model.safetensors");
    const [saved, loaded]: [number[][], number[][]] = [[], []];
    await save(path, sample(), { metadata: new Map([["a", "b"]]), onProgress: (...at) => saved.push(at) });
    const { tensors, metadata } = await load(bench.backend, path, { onProgress: (...at) => loaded.push(at) });
    assert.sameDeepMembers(await contents(tensors), await contents(sample()));
    assert.equal(metadata.get("a"), "b");
    for (const steps of [saved, loaded]) {
      assert.lengthOf(steps, 1 + sample().size);
      assert.deepEqual(steps.at(-1), [steps[0]![1], steps[0]![1]]);
    }
  });

  it("leave the old file as it was if saving fails half-way", async () => {
    const path = join(folder, "model.safetensors");
    await save(path, sample());
    const before = await readFile(path);
    const failing = save(
      path,
      new Map([
        ["x", tensor(bench.backend, [1])],
        ["y", tensor(bench.backend, [2])],
      ]),
      {
        onProgress: (done, total) => {
          if (done > total / 2) throw new Error("the power fails");
        },
      },
    );
    assert.match(String(await failing.catch((error: unknown) => error)), /the power fails/);
    assert.deepEqual(await readFile(path), before);
    assert.deepEqual(await readdir(folder), ["model.safetensors"]);
  });

  it("let training go on to the same bits", async () => {
    const { backend } = bench;
    const x = tensor(backend, [
      [1, 0.5],
      [-1, 2],
      [0.25, -0.75],
    ]);
    const fresh = (seed: number) => {
      const model = {
        first: new Linear(backend, 2, 3, new Random(seed)),
        last: new Linear(backend, 3, 1, new Random(seed + 1)),
      };
      const parameters = [...parametersOf(model).values()];
      const optimizer = new Adam(parameters, { rate: 0.1 });
      const step = valueAndGrad(() => model.last.forward(model.first.forward(x).tanh()).square().mean(), {
        at: parameters,
      });
      const train = (count: number): void => {
        for (let i = 0; i < count; i++) scope(() => optimizer.step(step().gradients));
      };
      const all = (): Map<string, Tensor> =>
        new Map([
          ...parametersOf(model),
          ...Array.from(optimizer.states(), ([name, state]) => [`adam.${name}`, state] as const),
        ]);
      return { model, optimizer, train, all };
    };
    const first = fresh(1);
    first.train(3);
    const path = join(folder, "half.safetensors");
    await save(path, first.all(), { metadata: { steps: String(first.optimizer.steps) } });
    first.train(4);

    const second = fresh(7);
    const { tensors, metadata } = await load(backend, path);
    loadParameters(second.model, new Map([...tensors].filter(([name]) => !name.startsWith("adam."))));
    for (const [name, state] of second.optimizer.states()) state.assign(tensors.get(`adam.${name}`)!);
    second.optimizer.steps = Number(metadata.get("steps"));
    second.train(4);
    assert.deepEqual(await contents(second.all()), await contents(first.all()));
    throws("INVALID_ARGUMENT", /has adam\.0\.mean, which the model has not/, () =>
      loadParameters(second.model, tensors),
    );
    throws("INVALID_ARGUMENT", /lacks first\.weight/, () => loadParameters(second.model, new Map()));
  });
});
