import { type ComputeBackend, download } from "@backplane/core";
import { expect } from "chai";
import { Coins, Sampler } from "#src/sampler.js";
import { registry } from "./subjects.js";

const vocabulary = 50;
const logits = Float32Array.from({ length: vocabulary }, (_, i) => 3 * Math.sin(i * i + 1));

/** `sample` of llama2.c, in double precision. */
function expected(temperature: number, topP: number, coin: number): number {
  const exponentials = Array.from(logits, (logit) => Math.exp(logit / temperature));
  const total = exponentials.reduce((a, b) => a + b);
  let ranked = exponentials.map((e, token) => ({ token, probability: e / total }));
  let limit = coin;
  if (topP > 0 && topP < 1) {
    ranked.sort((a, b) => b.probability - a.probability);
    let sum = 0;
    const last = ranked.findIndex(({ probability }) => {
      sum += probability;
      return sum > topP;
    });
    ranked = ranked.slice(0, last + 1);
    limit *= sum;
  }
  let sum = 0;
  return ranked.find(({ probability }) => {
    sum += probability;
    return sum > limit;
  })!.token;
}

async function sampled(backend: ComputeBackend, temperature: number, topP: number, count: number) {
  const sampler = new Sampler(backend, vocabulary, { temperature, topP, seed: 7 });
  const given = backend.alloc(logits.byteLength);
  backend.copyHtoD(given, logits);
  const chosen = backend.alloc(4 * count);
  for (let i = 0; i < count; i++) sampler.sample(given, { handle: chosen, byteOffset: 4 * i });
  const tokens = await download(backend, chosen, Int32Array, count);
  for (const handle of [given, chosen]) backend.free(handle);
  sampler.free();
  return [...tokens];
}

describe("the sampler", () => {
  for (const [name, count] of [
    ["cpu", 200],
    ["webgpu", 20],
  ] as const)
    it(`chooses as llama2.c does, on ${name}`, async () => {
      const backend = registry.create(name);
      await backend.init();
      for (const [temperature, topP] of [
        [1, 0.9],
        [0.5, 0.4],
        [2, 1],
      ] as const) {
        const coins = new Coins(7);
        const wanted = Array.from({ length: count }, () => expected(temperature, topP, coins.next()));
        expect(new Set(wanted)).to.have.property("size").greaterThan(2);
        expect(await sampled(backend, temperature, topP, count)).to.deep.equal(wanted);
      }
      const likeliest = logits.indexOf(Math.max(...logits));
      expect(await sampled(backend, 0, 0.9, 2)).to.deep.equal([likeliest, likeliest]);
      expect(backend.memory().liveAllocations).to.equal(0);
      await backend.dispose();
    });
});
