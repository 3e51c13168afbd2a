/** What the API says about a field, so that a form shows it there too. Errors of fields begin with the field's name. */
import { ApiError } from '../api/errors.ts'

export function fieldFault(error: Error | null, field: string): string | undefined {
  const prefix = `${field}: `
  if (!(error instanceof ApiError) || !error.message.startsWith(prefix)) return undefined
  const rule = error.message.slice(prefix.length)
  return `${rule.slice(0, 1).toUpperCase()}${rule.slice(1)}`
}
