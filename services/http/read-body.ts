/** Bodies that are read as a whole before anything is done with them. */
import { HttpError } from './errors.ts'
import type { IncomingBody } from './message.ts'
import { Pieces } from './pieces.ts'

/**
 * @param maximumBytes if it is less than the server accepts
 * @throws HttpError
 */
export async function readBody(body: IncomingBody, maximumBytes = Number.POSITIVE_INFINITY): Promise<Buffer> {
  const tooLarge = () => new HttpError({ kind: 'body too large', maximumBytes })
  if ((body.length ?? 0) > maximumBytes) throw tooLarge()
  const pieces = new Pieces()
  await body.read({
    push: chunk => {
      if (pieces.length + chunk.length > maximumBytes) throw tooLarge()
      pieces.add(chunk)
    },
    get held() {
      return pieces.length
    },
  })
  const bytes = pieces.bytes()
  return Buffer.isBuffer(bytes) ? bytes : Buffer.concat(bytes)
}

/** Whether the header Content-Type names this type, whatever its parameters. */
export const isContentType = (header: string | undefined, type: string): boolean =>
  header?.split(';')[0]?.trim().toLowerCase() === type
