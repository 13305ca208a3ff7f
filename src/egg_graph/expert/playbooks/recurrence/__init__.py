"""LSTM, GRU and RNN: all steps of several layers in one cooperative launch."""
