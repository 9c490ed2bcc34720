import type { LawResult, LawStatus } from "../bench.js";
import { lawId } from "../law.js";
import { formatCounts, formatRatio, formatTime, signs, statuses } from "../report/index.js";
import { element } from "./elements.js";

/** The list of laws that grows while the suite runs, folded by topic. */
export class Topics {
  readonly #place: HTMLElement;
  readonly #topics = new Map<string, Topic>();
  readonly #counts: Record<LawStatus, number> = noCounts();

  constructor(place: HTMLElement) {
    this.#place = place;
    this.clear();
  }

  /** Takes the list away. */
  clear(): void {
    this.#place.replaceChildren();
  }

  /** The count of all results so far, such as `1 broken, 30 kept`. */
  get summary(): string {
    return formatCounts(this.#counts);
  }

  add(result: LawResult): void {
    const { topic: name } = result.law;
    let topic = this.#topics.get(name);
    if (topic === undefined) {
      topic = new Topic(name);
      this.#topics.set(name, topic);
      this.#place.append(topic.root);
    }
    topic.add(result);
    this.#counts[result.status]++;
  }
}

class Topic {
  readonly root: HTMLDetailsElement = element("details");
  readonly #name: string;
  readonly #summary: HTMLElement = element("summary");
  readonly #laws: HTMLUListElement = element("ul");
  readonly #counts: Record<LawStatus, number> = noCounts();

  constructor(name: string) {
    this.#name = name;
    this.root.dataset.topic = name;
    this.root.append(this.#summary, this.#laws);
  }

  add(result: LawResult): void {
    const { status } = result;
    this.#counts[status]++;
    const worst = statuses.find((one) => this.#counts[one] > 0)!;
    this.#summary.replaceChildren(
      element("span", { className: worst }, signs[worst]),
      ` ${this.#name} `,
      element("small", {}, formatCounts(this.#counts)),
    );
    this.#laws.append(line(result));
    if (status === "broken") this.root.open = true;
  }
}

function line({ law, status, reason, error, worst, measurements, milliseconds }: LawResult): HTMLElement {
  const { dtype, name } = law;
  const title = dtype === undefined ? name : `${dtype}: ${name}`;
  const notes = [
    ...(reason === undefined ? [] : [reason]),
    ...(measurements.worst === null || status === "skipped" ? [] : [`worst ${formatRatio(worst)}`]),
    ...(status === "skipped" ? [] : [formatTime(milliseconds)]),
  ];
  const item = element(
    "li",
    {},
    element("span", { className: status }, `${signs[status]} ${status}`),
    ` ${title} `,
    element("small", {}, notes.join(", ")),
  );
  item.dataset.law = lawId(law);
  item.dataset.status = status;
  if (status === "broken")
    item.append(element("pre", {}, error instanceof Error ? error.message : String(error)));
  return item;
}

function noCounts(): Record<LawStatus, number> {
  return { broken: 0, unfinished: 0, kept: 0, skipped: 0 };
}
