/** Writes an error of the API in terms of a command's options: the API names fields of requests. Pure. */

/** Rewrites the message of an error. */
export type Rewrite = (message: string) => string

/**
 * `options`: the option or argument for each field, such as `{ target_time: '--to' }`. Of a path such as
 * `ip_allowlist.rules[0].cidr`, the first name decides. Inside a rule, only names with an underscore are fields: `size`
 * can be a word of the sentence.
 */
export const inOptions =
  (options: Readonly<Record<string, string>>): Rewrite =>
  message => {
    const optionOf = (field: string) => (Object.hasOwn(options, field) ? options[field] : undefined)
    return message
      .split('; ')
      .map(fault => {
        const [path = '', field = ''] = /^([a-z_]+)(?:[.[][\w.[\]]*)?(?=: )/.exec(fault) ?? []
        const option = optionOf(field)
        const [head, rule] = option === undefined ? ['', fault] : [option, fault.slice(path.length)]
        return head + rule.replace(/\b[a-z]+_[a-z_]+\b/g, word => optionOf(word) ?? word)
      })
      .join('; ')
  }
