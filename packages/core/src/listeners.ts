import { describe } from "./handles.js";
import { Checks } from "./ops/checks.js";

/** Functions to call at an event. One that throws keeps neither the others nor our caller from going on. */
export class Listeners<Event> {
  readonly #listeners = new Set<(event: Event) => void>();
  readonly #checks: Checks;

  /** `operation`: the method that adds listeners. */
  constructor(operation: string) {
    this.#checks = new Checks(operation);
  }

  /** Adds a listener and returns what removes it again; it hears at once of an event that still holds. */
  add(listener: (event: Event) => void, present?: Event): () => void {
    if (typeof listener !== "function")
      this.#checks.fail("listener", `is ${describe(listener)}; allowed: a function`);
    // A wrapper of its own, so that adding one function twice gives two independent subscriptions.
    const entry = (event: Event): void => {
      try {
        listener(event);
      } catch (error) {
        // The listener's own bug: let it surface as an unhandled rejection.
        void Promise.reject(error);
      }
    };
    this.#listeners.add(entry);
    if (present !== undefined) entry(present);
    return () => this.#listeners.delete(entry);
  }

  emit(event: Event): void {
    for (const entry of [...this.#listeners]) entry(event);
  }
}
