/** Functions to call at an event. One that throws keeps neither the others nor our caller from going on. */
export class Listeners<Event> {
  readonly #listeners = new Set<(event: Event) => void>();

  /** Adds a listener and returns what removes it again; it hears at once of an event that still holds. */
  add(listener: (event: Event) => void, present?: Event): () => void {
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
