/** What a service sees of HTTP: a request without its body, the body while it comes, and the response. */
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
  /** The client's IP address, as far as it can be known; empty where a Unix socket has none. */
  readonly address: string
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
  /** Takes the room that an answer of so many bytes needs until it has been fetched; false where the server has none. */
  leavesRoomFor(bytes: number): boolean
}

/** What an answer is written to that comes bit by bit. */
export type AnswerStream = {
  /**
   * Goes to the client at once. A client that fetches nothing of what it has been sent is hung up on, so that what is held for it has a bound.
   * @returns false where the client is slower than this: whoever can, waits until `drained`
   */
  write(text: string | Buffer): boolean
  /** Makes room for so many bytes beside those that wait for a slow client already; false where the server has none. */
  allow(bytes: number): boolean
  /** Resolves once the client has fetched what there is, or is gone. */
  drained(): Promise<void>
}

export type HttpResponse = {
  readonly status: number
  readonly statusText?: string
  readonly headers: HeaderList
  readonly body: Buffer | string | undefined
  /** Writes the answer, instead of a body; it ends when this does. The handler's signal is aborted when the client goes. */
  readonly stream?: (out: AnswerStream) => Promise<void>
  /** Of what is streamed, in bytes, where it is known. */
  readonly streamLength?: number | undefined
}

/** Why nothing that has come on a connection could be made a request of. */
export type UnreadRequest = 'malformed' | 'head too large' | 'too slow'

/** The signal is aborted when the client is gone. */
export type Handler = (head: RequestHead, body: IncomingBody, signal: AbortSignal) => Promise<HttpResponse>
