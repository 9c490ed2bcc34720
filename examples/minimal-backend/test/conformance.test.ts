// Tags: proof, pure
import { describeBackend } from "@backplane/conformance";
import {
  type ComputeBackend,
  createBackend,
  type DriverDescription,
  type DriverEvents,
} from "@backplane/core";
import { MinimalDriver } from "#src/index.js";

/** The memory of JavaScript does not get lost by itself: these say so when they are told to. */
class LosingDriver extends MinimalDriver {
  events: DriverEvents | undefined;

  override open(events: DriverEvents): Promise<DriverDescription> {
    this.events = events;
    return super.open(events);
  }
}

const drivers = new WeakMap<ComputeBackend, LosingDriver>();

function create(): ComputeBackend {
  const driver = new LosingDriver();
  const backend = createBackend(driver);
  drivers.set(backend, driver);
  return backend;
}

const loseDevice = (backend: ComputeBackend): void => drivers.get(backend)!.events!.lost("for a test");

describeBackend({ name: "the template", create, loseDevice }, { describe, it, before, after });
