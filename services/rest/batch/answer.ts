/**
 * Joins the responses of a batch: a list of `{"status": 200, "headers": {...}, "body": ...}`, in the order of the
 * requests. Pure.
 */
import type { HttpResponse } from '../../http/message.ts'
import { batchAnswerTooLarge } from '../errors/catalogue.ts'
import type { Plan } from '../plan/types.ts'

const decoder = new TextDecoder('utf-8', { fatal: true })

function asText(bytes: Buffer): string | undefined {
  try {
    return decoder.decode(bytes)
  } catch {
    return undefined
  }
}

/** Whether Postgres created the body as JSON, whatever its content type. */
const isJson = ({ body }: Plan): boolean =>
  body.explain === undefined
    ? body.shape.kind === 'json' || body.shape.kind === 'object' || body.shape.kind === 'geojson'
    : body.explain.format === 'json'

function headersOf({ headers }: HttpResponse): Record<string, string | string[]> {
  const byName = Map.groupBy(headers, ([name]) => name.toLowerCase())
  return Object.fromEntries(
    [...byName].map(([name, list]) => {
      const [value = '', ...more] = list.map(([, one]) => one)
      return [name, more.length === 0 ? value : [value, ...more]]
    }),
  )
}

/** One response: JSON is unchanged, other text is a string, and binary data is Base64. */
function answerOf(plan: Plan, response: HttpResponse): Buffer {
  const { status, body } = response
  const head = { status, headers: headersOf(response) }
  const bytes = typeof body === 'string' ? Buffer.from(body) : body
  if (bytes === undefined || bytes.length === 0) return Buffer.from(JSON.stringify({ ...head, body: null }))
  if (isJson(plan)) {
    return Buffer.concat([Buffer.from(`${JSON.stringify(head).slice(0, -1)},"body":`), bytes, Buffer.from('}')])
  }
  const text = asText(bytes)
  const content = text === undefined ? { body: bytes.toString('base64'), encoding: 'base64' } : { body: text }
  return Buffer.from(JSON.stringify({ ...head, ...content }))
}

/** Joins responses, up to a maximum size in bytes. */
export class BatchAnswer {
  readonly #maximumBytes: number
  readonly #parts: Buffer[] = []
  #bytes = 0

  constructor(maximumBytes: number) {
    this.#maximumBytes = maximumBytes
  }

  /** @throws RestError if the responses exceed the maximum */
  add(plan: Plan, response: HttpResponse): void {
    const part = answerOf(plan, response)
    this.#bytes += part.length
    if (this.#bytes > this.#maximumBytes) throw batchAnswerTooLarge(this.#maximumBytes)
    this.#parts.push(Buffer.from(this.#parts.length === 0 ? '[' : ',\n '), part)
  }

  end(): Buffer {
    return Buffer.concat([...this.#parts, Buffer.from(this.#parts.length === 0 ? '[]' : ']')])
  }
}
