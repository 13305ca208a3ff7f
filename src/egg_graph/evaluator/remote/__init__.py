"""An evaluator elsewhere: questions and answers in a folder or over HTTP, and the desk that has them judged."""
