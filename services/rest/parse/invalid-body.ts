/** What a body is refused with that nothing can be made of. */
import { RestError } from '../errors/rest-error.ts'

export const invalidBody = (message: string, details: string | null = null): RestError =>
  new RestError({ status: 400, code: 'RST102', message, details })
