import { evaluateCall } from "@backplane/conformance";
import type { BackendRegistry, OperationName } from "@backplane/core";
import { expect } from "chai";
import { FileError, readModel } from "#src/files.js";
import { Network } from "#src/network.js";
import { classify, type Route } from "#src/run.js";
import { arrays, pictures, safetensors } from "./model.js";
import { registry } from "./subjects.js";

/** The output of a call in double precision. */
function exact(
  operation: OperationName,
  output: string,
  rest: Readonly<Record<string, unknown>>,
  inputs: Readonly<Record<string, ArrayLike<number>>>,
): Float64Array {
  const all = Object.entries(inputs).map(([name, values]) => [name, Float64Array.from(values)]);
  return evaluateCall(operation, rest, Object.fromEntries(all))[output]!.values;
}

/** The network as its description has it. */
function exactLogits(images: readonly Float32Array[]): Float64Array {
  const count = images.length;
  let [channels, extent] = [1, 28];
  let values: Float64Array = Float64Array.from(
    images.flatMap((pixels) => [...pixels].map((value) => value / 255)),
  );
  for (const [name, window] of [
    ["conv1", 2],
    ["conv2", 3],
  ] as const) {
    const filter = arrays[`${name}.weight`]!;
    const inputShape = [count, channels, extent, extent];
    channels = filter.shape[0]!;
    values = exact(
      "conv2d",
      "output",
      { inputShape, filterShape: filter.shape, padding: [2, 2, 2, 2], activation: "relu" },
      { input: values, filter: filter.values, bias: arrays[`${name}.bias`]!.values },
    );
    const pooled = { kind: "max", inputShape: [count, channels, extent, extent], kernel: [window, window] };
    values = exact("pool2d", "output", pooled, { input: values });
    extent = Math.floor(extent / window);
  }
  const product = { m: count, n: 10, k: 256 };
  const weights = { b: arrays["fc.weight"]!.values, bias: arrays["fc.bias"]!.values };
  return exact("gemm", "c", product, { a: values, ...weights });
}

const model = readModel(safetensors(arrays));
const logits = exactLogits(pictures);

/** The pictures, with the exact logits beside them. */
const named = pictures.map((pixels, i) => ({
  ...{ name: String(i), pixels, logits: [...logits.subarray(10 * i, 10 * i + 10)] },
}));

const routes: readonly Route[] = [
  ["reference", "reference"],
  ["cpu", "cpu"],
  ["webgpu", "webgpu"],
  ["cpu", "webgpu"],
  ["webgpu", "cpu"],
];

describe("the convolutional network", () => {
  for (const route of routes)
    it(`computes what its description says, on ${route.join(", then ")}`, async () => {
      const { digits, difference } = await classify(registry, route, model, named);
      expect(Math.max(...logits)).to.be.greaterThan(0.1);
      expect(difference).to.be.lessThan(1e-5);
      expect(digits).to.deep.equal(named.map((picture) => indexOfLargest(picture.logits)));
    });

  it("leaves nothing allocated", async () => {
    const backend = await opened(registry);
    const network = new Network(backend, model);
    const { liveAllocations } = backend.memory();
    await network.classify(pictures);
    expect(backend.memory().liveAllocations).to.equal(liveAllocations);
    network.free();
    expect(backend.memory().liveAllocations).to.equal(0);
    await backend.dispose();
  });

  it("refuses a model that lacks an array or has another shape", async () => {
    const backend = await opened(registry);
    const { "fc.bias": bias, ...others } = arrays;
    const without = readModel(safetensors(others));
    expect(() => new Network(backend, without)).to.throw(
      FileError,
      /no array fc\.bias; it has conv1\.weight/,
    );
    const wrong = { ...others, "fc.bias": { shape: [5, 2], values: bias!.values } };
    expect(() => new Network(backend, readModel(safetensors(wrong)))).to.throw(
      FileError,
      /fc\.bias has shape \[5, 2\]; needed: \[10\]/,
    );
    expect(backend.memory().liveAllocations).to.equal(0);
    await backend.dispose();
  });
});

async function opened(backends: BackendRegistry) {
  const backend = backends.create("cpu");
  await backend.init();
  return backend;
}

function indexOfLargest(values: readonly number[]): number {
  return values.indexOf(Math.max(...values));
}
