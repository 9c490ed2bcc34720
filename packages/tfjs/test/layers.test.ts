// Tags: kernels, pure, long
import "@tensorflow/tfjs-backend-cpu";
import assert from "node:assert/strict";
import { cpu } from "@backplane/backend-cpu";
import { webgpu } from "@backplane/backend-webgpu";
import { type Registration, register } from "@backplane/tfjs";
import * as tf from "@tensorflow/tfjs-core";
import * as tfl from "@tensorflow/tfjs-layers";
import { examples, train } from "./models.js";

const largestDifference = 1e-4;

function assertClose(actual: ArrayLike<number>, expected: ArrayLike<number>): void {
  assert.equal(actual.length, expected.length);
  for (let i = 0; i < expected.length; i++) {
    const difference = Math.abs(actual[i]! - expected[i]!);
    assert.ok(
      difference <= largestDifference,
      `number ${i} is ${actual[i]}; expected: ${expected[i]} within ${largestDifference}`,
    );
  }
}

describe("models of tfjs-layers", () => {
  let registration: Registration;

  before(async () => {
    registration = await register(tf, [cpu({ threads: 2 }), webgpu()], { name: "layers", use: false });
  });

  after(async () => {
    await tf.setBackend("cpu");
    await registration.dispose();
  });

  it("are saved and loaded", async () => {
    await registration.use("cpu");
    await tf.setBackend("layers");
    for (const make of Object.values(examples)) {
      const { model, inputs, targets } = make();
      let artifacts: tf.io.ModelArtifacts | undefined;
      await model.save(
        tf.io.withSaveHandler(async (saved) => {
          artifacts = saved;
          return { modelArtifactsInfo: tf.io.getModelArtifactsInfoForJSON(saved) };
        }),
      );
      const loaded = await tfl.loadLayersModel(tf.io.fromMemory(artifacts!));
      const [first, second] = [model, loaded].map((one) => one.predict(inputs) as tf.Tensor);
      assert.deepEqual(await second!.data(), await first!.data());
      tf.dispose([first!, second!, inputs, targets]);
      model.optimizer.dispose();
      model.dispose();
      loaded.dispose();
    }
  });

  for (const [name, make] of Object.entries(examples))
    describe(name, () => {
      let expected: Awaited<ReturnType<typeof train>>;

      before(async () => {
        await tf.setBackend("cpu");
        expected = await train(make);
        assert.equal(expected.losses.length, 20);
        await tf.setBackend("layers");
      });

      for (const [title, backends] of Object.entries({
        "on the CPU": ["cpu", "cpu"],
        "on WebGPU": ["webgpu", "webgpu"],
        "across swaps in the middle of fit": ["cpu", "webgpu"],
      }) as [string, [string, string]][])
        it(`has the losses of tfjs-backend-cpu ${title}`, async () => {
          const [first, second] = backends;
          await registration.use(first);
          const before = tf.memory();
          const { losses, predictions } = await train(make, async (epoch) => {
            if (epoch % 3 === 2) await registration.use(epoch % 2 === 0 ? second : first);
          });
          assertClose(losses, expected.losses);
          assertClose(predictions, expected.predictions);
          const { numTensors, numDataBuffers } = tf.memory();
          assert.deepEqual(
            { numTensors, numDataBuffers },
            { numTensors: before.numTensors, numDataBuffers: before.numDataBuffers },
          );
        });
    });
});
