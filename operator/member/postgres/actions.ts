/** Actions in a member's Postgres. */
export type PostgresAction =
  /**
   * Sets roles and passwords. `opens`: then opens a closed copy to clients, like `open`. `keepsPasswords`: the
   * passwords of users' roles are not changed.
   */
  | { do: 'ensure-roles'; opens?: true; keepsPasswords?: true }
  /** Removes the source's slots and subscriptions from a closed copy. */
  | { do: 'detach' }
  /** Lets clients into a closed copy. */
  | { do: 'open' }
  /** Makes Postgres read its certificate and configuration again. */
  | { do: 'reload' }
