import { describe } from "./handles.js";
import { Checks } from "./ops/checks.js";

/** Functions to call at an event. If one throws, the others and the caller still go on. */
export class Listeners<Event> {
  readonly #listeners = new Set<(event: Event) => void>();
  readonly #checks: Checks;

  /** `operation` is the method that adds listeners. */
  constructor(operation: string) {
    this.#checks = new Checks(operation);
  }

  /**
   * Adds a listener and returns a function that removes it. If `present` is given, calls the listener with it
   * at once.
   */
  add(listener: (event: Event) => void, present?: Event): () => void {
    if (typeof listener !== "function")
      this.#checks.fail("listener", `is ${describe(listener)}; allowed: a function`);
    // Each subscription has its own wrapper, so that adding one function twice gives two independent subscriptions.
    const entry = (event: Event): void => {
      try {
        listener(event);
      } catch (error) {
        // The bug is the listener's own: it surfaces as an unhandled rejection.
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
