import { assert } from "chai";
import { BatchPolicy, batchLimits, estimatedMilliseconds } from "#src/runtime/policy.js";

describe("webgpu flush policy", () => {
  const limits = { dispatches: 4, replayed: 4, work: 100, shown: 2, recording: 10 };

  /** Records until the policy says to submit; answers how many dispatches that took. */
  function fill(policy: BatchPolicy, work: number, now: () => number = () => 0): number {
    for (let count = 1; count <= 1000; count++) if (policy.add(work, now())) return count;
    return Number.POSITIVE_INFINITY;
  }

  it("submits after a number of dispatches, however small, and starts anew after that", () => {
    const policy = new BatchPolicy(limits);
    for (let i = 0; i < 3; i++) {
      assert.equal(fill(policy, 0), 4);
      policy.submitted(0);
    }
    assert.equal(fill(new BatchPolicy(), 0), batchLimits.dispatches);
  });

  it("submits before what does not fit, and after what fills the batch", () => {
    const policy = new BatchPolicy(limits);
    assert.isFalse(policy.add(60, 0));
    assert.isFalse(policy.isDue(40, 0));
    assert.isTrue(policy.isDue(41, 0));
    assert.isTrue(policy.add(40, 0));
  });

  it("never submits nothing: a dispatch beyond the limit goes alone", () => {
    const policy = new BatchPolicy(limits);
    assert.isFalse(policy.isDue(1e9, 1e9));
    assert.isTrue(policy.add(1e9, 0));
    policy.submitted(0);
    assert.isFalse(policy.isDue(1e9, 1e9));
  });

  it("submits when recording has taken long, counted from the first dispatch of the batch", () => {
    const policy = new BatchPolicy(limits);
    policy.add(0, 1000);
    assert.isFalse(policy.isDue(0, 1009));
    policy.add(0, 1009);
    assert.isTrue(policy.isDue(0, 1010));
    policy.submitted(0);
    policy.add(0, 1010);
    assert.isFalse(policy.isDue(0, 1019));
  });

  it("lets a batch hold more once the device has shown that it is fast", () => {
    const policy = new BatchPolicy(limits);
    policy.add(1000, 0);
    policy.submitted(50);
    policy.add(1000, 0);
    policy.submitted(55);
    policy.finished(policy.latest, 60); // 2000 in 10 milliseconds: 400 in 2
    assert.isFalse(policy.add(399, 60));
    assert.isTrue(policy.isDue(2, 60));
    policy.submitted(60);
    // A slower rate than that takes nothing back: the device may have waited for the caller.
    policy.submitted(60);
    policy.finished(policy.latest, 1000);
    assert.isFalse(policy.add(399, 1000));
  });

  it("counts time from when the device had nothing to do, and believes no short one", () => {
    const policy = new BatchPolicy(limits);
    policy.add(1000, 0);
    policy.submitted(0);
    const first = policy.latest;
    policy.add(1000, 1);
    policy.submitted(1);
    const second = policy.latest;
    policy.finished(first, 4); // 250 a millisecond, if it were believed
    assert.isTrue(policy.add(101, 4));
    policy.submitted(4);
    const third = policy.latest;
    policy.finished(second, 20); // 2000 in 20 milliseconds: 200 in 2, and the third is under way since 4
    policy.finished(third, 21);
    assert.isFalse(policy.add(199, 21));
    assert.isTrue(policy.isDue(2, 21));
  });

  it("keeps a submit under a second on a slow device", () => {
    // 8 GB/s and 20 GFLOP/s: half of what the estimate counts on, and less than phones have.
    for (const [bytes, flops] of [
      [64e6, 0],
      [12, 2 ** 31],
      [3 * 2 ** 22, 2 ** 30],
    ] as const) {
      const policy = new BatchPolicy();
      const count = fill(policy, estimatedMilliseconds(bytes, flops));
      assert.isBelow(count * (bytes / 8e6 + flops / 20e6), 1000, `${bytes} bytes, ${flops} flops`);
    }
    // A layer of a network at a time does not cost a submit.
    assert.isAbove(fill(new BatchPolicy(), estimatedMilliseconds(3 * 2 ** 22, 2 * 512 ** 3)), 30);
  });
});
