/**
 * Error texts for invalid values. They continue the key's name: `must be a string`. zod's parse gets them as `error`. A
 * schema with its own text keeps that text.
 */
import type { z } from 'zod'

const kinds: Readonly<Record<string, string>> = {
  string: 'a string',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  record: 'an object',
  null: 'null',
}

/** The unit that each kind of value counts. For a number, the rule compares the number itself. */
const units: Readonly<Record<string, string>> = {
  string: 'characters',
  array: 'entries',
  set: 'entries',
  object: 'fields',
  map: 'fields',
}

function bound(origin: string, words: string, limit: number | bigint): string {
  const unit = units[origin]
  return unit === undefined ? `must be ${words} ${limit}` : `must have ${words} ${limit} ${unit}`
}

export function ruleOf(issue: z.core.$ZodRawIssue): string {
  switch (issue.code) {
    case 'invalid_type':
      return issue.input === undefined ? 'must be given' : `must be ${kinds[issue.expected] ?? issue.expected}`
    case 'invalid_value':
      return `must be ${issue.values.length === 1 ? '' : 'one of '}${issue.values.map(value => JSON.stringify(value)).join(', ')}`
    case 'too_small':
      return bound(issue.origin, issue.inclusive === false ? 'more than' : 'at least', issue.minimum)
    case 'too_big':
      return bound(issue.origin, issue.inclusive === false ? 'less than' : 'at most', issue.maximum)
    case 'unrecognized_keys':
      return `must not have ${issue.keys.map(key => JSON.stringify(key.slice(0, 100))).join(', ')}`
    case 'invalid_union':
      return 'must be of one of the known kinds'
    default:
      return 'has a form that is not accepted'
  }
}
