/** What a service sees of HTTP: a request without its body, the body while it comes, and the response. */
// @ts-nocheck

import type { HeaderList } from './headers.ts'

/** Headers by their names in lower case; several of one name joined by commas. */
export type Headers = Readonly<Record<string, string | undefined>>

/** A request but for its body. */
export type RequestHead = {
  readonly method: string
  /** As sent, still encoded, without the query string. */
  readonly path: string
  readonly query: string
  readonly headers: Headers
}

/** Takes a body as it comes, and says how many bytes it holds of it. */
export type BodySink = { push(chunk: Buffer): void; readonly held: number }

/** A body that is still to come. */
export type IncomingBody = {
  /** In bytes, where the client says it. */
  readonly length: number | undefined
  /**
   * Nothing of it is taken, or counted, before.
   * @throws HttpError where it is too large or there is no room for it; what the sink throws; what the signal is aborted with
   */
  read(into: BodySink): Promise<void>
}

export type HttpResponse = {
  readonly status: number
  readonly statusText?: string
  readonly headers: HeaderList
  readonly body: Buffer | string | undefined
}

/** The signal is aborted when the client is gone. */
export type Handler = (head: RequestHead, body: IncomingBody, signal: AbortSignal) => Promise<HttpResponse>
