import { cpu } from "@backplane/backend-cpu";
import { webgpu } from "@backplane/backend-webgpu";
import { type Registration, register } from "@backplane/tfjs";
import * as tf from "@tensorflow/tfjs-core";

export const name = "registered";

/** Registers both backends for the tests of a suite, each of which begins on the CPU. `fusion`: as the option of `register`. */
export function registered(given: (registration: Registration) => void, fusion = true): void {
  let registration: Registration;

  before(async () => {
    registration = await register(tf, [cpu(), webgpu()], { name, fusion });
    given(registration);
  });

  after(async () => {
    await tf.setBackend("cpu");
    await registration.dispose();
  });

  beforeEach(async () => {
    await registration.use("cpu");
  });
}

/** The squares, by a kernel that is for the device, however few they are. */
export function squared<T extends tf.Tensor>(x: T): T {
  return tf.tidy(() => tf.squaredDifference<T>(x, tf.scalar(0, x.dtype as "float32")));
}
