import { cpu, createCpuBackend } from "@backplane/backend-cpu";
import { register } from "@backplane/tfjs";
import * as tf from "@tensorflow/tfjs-core";
import { expect } from "chai";
import { taskOf, trainee } from "#src/training/models.js";
import { parseTrainingOptions } from "#src/training/options.js";
import { modelNames } from "#src/training/task.js";
import { openTfjs } from "#src/training/tfjs.js";

describe("steps of training to be timed", () => {
  for (const name of modelNames)
    it(`change the ${name} as steps of TensorFlow.js do, and leave nothing behind`, async () => {
      await using backend = createCpuBackend({ threads: 0 });
      await backend.init();
      const registration = await register(tf, [cpu({ threads: 0 })], { name: "steps" });
      try {
        const { numTensors } = tf.memory();
        const both = [trainee(name, backend), await openTfjs("steps", await taskOf(name))];
        const losses: number[][] = [];
        for (const model of both) {
          const start = await model.loss();
          for (let i = 0; i < 3; i++) await model.step();
          await model.settle();
          losses.push([start, await model.loss()]);
          await model.close();
        }
        const [[before, after], other] = losses as [number[], number[]];
        expect(after).to.be.lessThan(before!);
        expect(other[0]).to.be.closeTo(before!, 1e-5 * before!);
        expect(other[1]).to.be.closeTo(after!, 1e-4 * after!);
        // Its optimizer keeps its rate, even if it is disposed.
        expect(tf.memory().numTensors).to.equal(numTensors + 1);
        expect(backend.memory().liveAllocations).to.equal(0);
      } finally {
        await tf.setBackend("cpu");
        await registration.dispose();
      }
    });

  it("have options that are refused with what is allowed", () => {
    expect(parseTrainingOptions([])).to.include({ threads: 2, rounds: 7, peers: false });
    expect(parseTrainingOptions(["--model", "cnn"]).names).to.deep.equal(["cnn"]);
    expect(() => parseTrainingOptions(["--model", "x"])).to.throw("--model is x; allowed: mlp, cnn");
    expect(() => parseTrainingOptions(["--threads", "-1"])).to.throw(/threads/);
    expect(() => parseTrainingOptions(["--rounds", "0"])).to.throw("allowed: whole numbers from 1 on");
  });
});
