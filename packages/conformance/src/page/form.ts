import { mutants } from "../mutants/index.js";
import { byId, element } from "./elements.js";
import { choices, lists, parametersFor, type Settings, type Source, texts } from "./settings.js";

const single = ["source", "backend", ...texts] as const;

/** The form of `index.html`. */
export class Form {
  readonly #form: HTMLFormElement = byId<HTMLFormElement>("form");

  /** Fills in the choices, then the settings. */
  constructor(settings: Settings, onSubmit: () => void) {
    for (const name of ["mode", "grade"] as const)
      this.#field(name).append(...choices[name].map((value) => element("option", { value }, value)));
    this.#field("mutant").append(...mutants.map(({ name }) => element("option", { value: name }, name)));
    for (const name of lists)
      for (const value of choices[name])
        byId(name).append(
          element("label", {}, element("input", { type: "checkbox", name, value }), ` ${value}`),
        );
    for (const name of single) if (settings[name] !== "") this.#field(name).value = settings[name];
    for (const name of lists)
      for (const box of this.#boxes(name)) box.checked = settings[name].includes(box.value);
    const { grade, runs, law, replay, dtype, config } = settings;
    const filled = [settings.export, config, runs, settings["time-budget"], law, replay, ...dtype];
    const more = [grade === "must" ? "" : grade, ...filled];
    byId<HTMLDetailsElement>("more").open = more.some((value) => value !== "");

    this.#form.addEventListener("input", () => this.#update());
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      onSubmit();
    });
    this.#update();
    this.#form.hidden = false;
  }

  get settings(): Settings {
    const ofOne = single.map((name) => [name, this.#field(name).value.trim()]);
    const ofSeveral = lists.map((name) => [
      name,
      this.#boxes(name).flatMap((box) => (box.checked ? [box.value] : [])),
    ]);
    return Object.fromEntries([...ofOne, ...ofSeveral]) as unknown as Settings;
  }

  /** The chosen file, if there is one. */
  get file(): File | undefined {
    return (this.#form.elements.namedItem("file") as HTMLInputElement).files?.[0];
  }

  /** While the suite runs, another run cannot be started. */
  set isRunning(running: boolean) {
    this.#form.querySelector<HTMLButtonElement>("button[type=submit]")!.disabled = running;
  }

  /** Shows the field that belongs to the source, and the address of these settings. */
  #update(): void {
    const { settings } = this;
    for (const label of this.#form.querySelectorAll<HTMLElement>("[data-source]"))
      label.hidden = label.dataset.source !== (settings.source satisfies Source);
    const link = byId<HTMLAnchorElement>("link");
    link.hidden = settings.source === "file";
    link.href = `?${parametersFor(settings)}`;
  }

  #field(name: string): HTMLInputElement | HTMLSelectElement {
    return this.#form.elements.namedItem(name) as HTMLInputElement | HTMLSelectElement;
  }

  #boxes(name: string): readonly HTMLInputElement[] {
    return [...this.#form.querySelectorAll<HTMLInputElement>(`input[name=${name}]`)];
  }
}
