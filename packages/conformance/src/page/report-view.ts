import { type ConformanceReport, renderHtml, renderMarkdown } from "../report/index.js";
import { byId, element } from "./elements.js";

/** Shows finished reports, one at a time, and offers them as files. */
export class ReportView {
  readonly #reports: ConformanceReport[] = [];
  /** Object URLs of the report on show. They hold memory until they are revoked. */
  #addresses: string[] = [];

  constructor() {
    const which = byId<HTMLSelectElement>("which");
    which.onchange = () => this.#show(this.#reports[which.selectedIndex]!);
  }

  clear(): void {
    this.#reports.length = 0;
    this.#release();
    byId("which").replaceChildren();
    byId("report").hidden = true;
  }

  /** Adds a report and shows it. */
  add(report: ConformanceReport): void {
    this.#reports.push(report);
    const which = byId<HTMLSelectElement>("which");
    which.append(element("option", {}, report.subject.name));
    which.selectedIndex = this.#reports.length - 1;
    which.hidden = this.#reports.length === 1;
    byId("which-label").hidden = which.hidden;
    this.#show(report);
    byId("report").hidden = false;
  }

  #show(report: ConformanceReport): void {
    this.#release();
    const files = {
      html: new Blob([renderHtml(report)], { type: "text/html;charset=utf-8" }),
      md: new Blob([renderMarkdown(report)], { type: "text/markdown;charset=utf-8" }),
      json: new Blob([`${JSON.stringify(report, undefined, 2)}\n`], { type: "application/json" }),
    };
    for (const [ending, file] of Object.entries(files))
      Object.assign(byId(`download-${ending}`), {
        href: this.#addressFor(file),
        download: `${fileName(report.subject.name)}.${ending}`,
      });
    const address = this.#addressFor(files.html);
    byId<HTMLAnchorElement>("open").href = address;
    const frame = byId<HTMLIFrameElement>("frame");
    frame.onload = () => fit(frame);
    // Not as srcdoc: links within the report would lead to this page then.
    frame.src = address;
  }

  #addressFor(file: Blob): string {
    const address = URL.createObjectURL(file);
    this.#addresses.push(address);
    return address;
  }

  #release(): void {
    for (const address of this.#addresses) URL.revokeObjectURL(address);
    this.#addresses = [];
  }
}

/** Makes the frame as high as its content, also when parts of that are unfolded, so that there is one scroll bar. */
function fit(frame: HTMLIFrameElement): void {
  const root = frame.contentDocument?.documentElement;
  if (root == null) return;
  const observer = new ResizeObserver(() => {
    frame.style.height = `${root.offsetHeight + 4}px`;
  });
  observer.observe(root);
}

/** Returns a file name that any file system takes. */
function fileName(subject: string): string {
  const plain = subject.replace(/[^\w.-]+/g, "-").replace(/^[-.]+|[-.]+$/g, "");
  return `conformance-${plain || "report"}`;
}
