import type { ComputeBackend } from "@backplane/core";
import type { Blend } from "./linear.js";
import type { Network } from "./network.js";

/**
 * Stochastic gradient descent with momentum (Polyak, 1964), over all parameters at once:
 *
 *   velocity = momentum velocity - rate gradient
 *   parameters = parameters + velocity
 *
 * The velocity is the network's gradients, with each new gradient blended with those before.
 */
export class Momentum {
  readonly #backend: ComputeBackend;
  readonly #network: Network;
  readonly #momentum: number;

  constructor(backend: ComputeBackend, network: Network, momentum: number) {
    this.#backend = backend;
    this.#network = network;
    this.#momentum = momentum;
  }

  /** For `Network.backward`: the first line. */
  blend(rate: number): Blend {
    return { keep: this.#momentum, scale: -rate };
  }

  /** The second line. */
  step(): void {
    const { parameters, gradients: velocity, parameterCount: n } = this.#network;
    this.#backend.binary({ kind: "add", n, a: parameters, b: velocity, output: parameters });
  }
}
