/** What a test page tells the runner, through a function that the runner adds to the page's window. */
export type PageMessage =
  | { readonly type: "pass" | "pending" }
  | { readonly type: "fail"; readonly failure: PageFailure }
  | { readonly type: "end" }
  | { readonly type: "broken"; readonly message: string };

export interface PageFailure {
  readonly titlePath: string[];
  readonly message: string;
  readonly stack: string;
  /** Both are given, as text, when the assertion compared two values. */
  readonly actual?: string;
  readonly expected?: string;
}

export const TELL_RUNNER = "tellTestRunner";

export type TellRunner = (message: PageMessage) => Promise<void>;
