import type { ComputeBackend, DeviceHandle } from "@backplane/core";
import { Allocations } from "./allocations.js";
import type { Network } from "./network.js";

/** Stochastic gradient descent with momentum (Polyak, 1964), over all parameters at once. */
export class Momentum {
  readonly #backend: ComputeBackend;
  readonly #network: Network;
  readonly #momentum: number;
  readonly #allocations: Allocations;
  readonly #velocity: DeviceHandle;

  constructor(backend: ComputeBackend, network: Network, momentum: number) {
    this.#backend = backend;
    this.#network = network;
    this.#momentum = momentum;
    this.#allocations = new Allocations(backend);
    this.#velocity = this.#allocations.zeros(network.parameterCount);
  }

  /**
   *   velocity = momentum velocity + gradient
   *   parameters = parameters - rate velocity
   *
   * The gradients are used up: their place holds the last product.
   */
  step(rate: number): void {
    const { parameters, gradients, parameterCount: n } = this.#network;
    const velocity = this.#velocity;
    const backend = this.#backend;
    backend.binary({ kind: "mul", n, a: velocity, b: { scalar: this.#momentum }, output: velocity });
    backend.binary({ kind: "add", n, a: velocity, b: gradients, output: velocity });
    backend.binary({ kind: "mul", n, a: velocity, b: { scalar: rate }, output: gradients });
    backend.binary({ kind: "sub", n, a: parameters, b: gradients, output: parameters });
  }

  free(): void {
    this.#allocations.free();
  }
}
