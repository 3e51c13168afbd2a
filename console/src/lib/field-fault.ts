/** Finds API errors about a form field. Such an error begins with the name of the field. Pure. */
import { ApiError } from '../api/errors.ts'

/** Returns the API's message about a field, without the name of the field. Returns undefined for other errors. */
export function fieldFault(error: Error | null, field: string): string | undefined {
  const prefix = `${field}: `
  if (!(error instanceof ApiError) || !error.message.startsWith(prefix)) return undefined
  const message = error.message.slice(prefix.length)
  return `${message.slice(0, 1).toUpperCase()}${message.slice(1)}`
}
