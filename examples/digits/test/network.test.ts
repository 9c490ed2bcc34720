import { SwitchableBackend } from "@backplane/core";
import { expect } from "chai";
import type { Batch } from "#src/data.js";
import { Momentum } from "#src/momentum.js";
import { Network } from "#src/network.js";
import { Random } from "#src/random.js";
import { crossEntropy, differences } from "./finite-differences.js";
import { registry } from "./subjects.js";

const sizes = [5, 4, 6, 3];
const capacity = 8;
/** Fewer than fit, as in the last batch of an epoch. */
const rows = 7;

function someBatch(seed: number): Batch {
  const random = new Random(seed);
  const oneHot = new Uint8Array(rows * sizes.at(-1)!);
  for (let row = 0; row < rows; row++) oneHot[row * sizes.at(-1)! + Math.floor(3 * random.uniform())] = 1;
  return {
    count: rows,
    images: Uint8Array.from({ length: rows * sizes[0]! }, () => 256 * random.uniform()),
    scale: 1 / 128,
    oneHot,
  };
}

async function read(backend: SwitchableBackend, handle: Parameters<typeof backend.copyDtoH>[1], n: number) {
  const values = new Float32Array(n);
  await backend.copyDtoH(values, handle);
  return values;
}

for (const name of registry.names) {
  describe(`Network on ${name}`, () => {
    let backend: SwitchableBackend;
    let network: Network;

    beforeEach(async () => {
      backend = new SwitchableBackend(registry, name);
      await backend.init();
      network = new Network(backend, sizes, capacity, new Random(3));
    });

    afterEach(() => backend.dispose());

    it("has the gradient that finite differences in double precision give", async () => {
      const batch = someBatch(5);
      // Biases start at 0; anything else tests more.
      const random = new Random(4);
      const parameters = Float32Array.from({ length: network.parameterCount }, () => random.normal());
      backend.copyHtoD(network.parameters, parameters);
      network.forward(batch);
      network.backward(batch);
      const loss = await network.loss();
      const gradients = await read(backend, network.gradients, network.parameterCount);

      expect(loss).to.be.closeTo(crossEntropy(sizes, parameters, batch), 1e-5);
      const expected = differences(sizes, parameters, batch);
      const largest = Math.max(...expected.map(Math.abs));
      expected.forEach((slope, i) => {
        expect(gradients[i], `parameter ${i}`).to.be.closeTo(slope, 1e-5 * largest);
      });
    });

    it("learns: the loss falls step by step", async () => {
      const batch = someBatch(6);
      const optimiser = new Momentum(backend, network, 0.9);
      const losses: number[] = [];
      for (let step = 0; step < 80; step++) {
        network.forward(batch);
        network.backward(batch, optimiser.blend(0.1));
        losses.push(await network.loss());
        optimiser.step();
      }
      expect(losses.at(-1)).to.be.lessThan(0.5 * losses[0]!);
    });

    it("blends gradients with those that are there", async () => {
      const n = network.parameterCount;
      const batch = someBatch(8);
      network.forward(batch);
      network.backward(batch);
      const gradients = await read(backend, network.gradients, n);
      backend.fill(network.gradients, 4, n);
      network.backward(batch, { keep: 0.5, scale: -3 });
      const blended = await read(backend, network.gradients, n);
      gradients.forEach((gradient, i) => {
        expect(blended[i], `parameter ${i}`).to.be.closeTo(2 - 3 * gradient, 1e-5);
      });
    });

    it("moves parameters by momentum: v = 0.5 v - 0.25 g, then p = p + v", async () => {
      const n = network.parameterCount;
      const optimiser = new Momentum(backend, network, 0.5);
      expect(optimiser.blend(0.25)).to.deep.equal({ keep: 0.5, scale: -0.25 });
      backend.fill(network.parameters, 10, n);
      for (const velocity of [-1, -2.5]) {
        backend.fill(network.gradients, velocity, n);
        optimiser.step();
      }
      expect([...(await read(backend, network.parameters, n))]).to.deep.equal(Array(n).fill(6.5));
    });

    it("frees all that it allocated", () => {
      expect(backend.memory().liveAllocations).to.be.greaterThan(0);
      network.free();
      expect(backend.memory()).to.include({ liveAllocations: 0, liveBytes: 0 });
    });
  });
}

describe("Network on a backend that is swapped", () => {
  it("computes what it would have computed without the swap", async () => {
    const parameters: Float32Array[] = [];
    for (const plan of [
      ["cpu", "cpu", "cpu"],
      ["cpu", "webgpu", "reference"],
    ]) {
      await using backend = new SwitchableBackend(registry, plan[0]!);
      await backend.init();
      const network = new Network(backend, sizes, capacity, new Random(3));
      const optimiser = new Momentum(backend, network, 0.9);
      for (const name of plan) {
        await backend.use(name);
        const batch = someBatch(7);
        network.forward(batch);
        network.backward(batch, optimiser.blend(0.1));
        optimiser.step();
      }
      parameters.push(await read(backend, network.parameters, network.parameterCount));
    }
    const [stayed, swapped] = parameters;
    swapped!.forEach((value, i) => {
      expect(value, `parameter ${i}`).to.be.closeTo(stayed![i]!, 1e-5);
    });
  });
});
