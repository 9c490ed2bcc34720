/** Functions to call at an event. One that throws does not keep the others from being called. */
export class Listeners<Event> {
  readonly #listeners = new Set<(event: Event) => void>();

  /** Adds a listener and returns what removes it again. */
  add(listener: (event: Event) => void): () => void {
    // A wrapper of its own, so that adding one function twice gives two independent subscriptions.
    const entry = (event: Event): void => listener(event);
    this.#listeners.add(entry);
    return () => this.#listeners.delete(entry);
  }

  emit(event: Event): void {
    for (const listener of [...this.#listeners]) {
      try {
        listener(event);
      } catch (error) {
        // The listener's own bug: let it surface as an unhandled rejection, not in our caller.
        void Promise.reject(error);
      }
    }
  }
}
